package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// freeze has nothing expire for a time, 0 thaws.
func (c *testCluster) freeze(through *testNode, span time.Duration) {
	c.t.Helper()
	r := session.FreezeRequest{For: span, By: "ops", Why: "new switches"}
	if index, err := through.server.Freeze(c.t.Context(), r); err != nil || index == 0 {
		c.t.Fatalf("freeze through %s: entry %d, %v", through.name, index, err)
	}
	if frozen := through.view.Tree().Time.Freeze != nil; frozen != (span > 0) {
		c.t.Errorf("the node that answered has a frozen state: %v", frozen)
	}
}

// lives reports whether a session is alive by the word of a node's own state and local sessions.
func (n *testNode) lives(t *testing.T, id session.ID) bool {
	t.Helper()
	_, err := n.server.Find(t.Context(), id, session.ReadOptions{})
	if err != nil && !errors.Is(err, session.ErrExpired) {
		t.Fatalf("%v: %v", id, err)
	}
	return err == nil
}

// Y3: in a freeze neither a global nor a local session of a silent client expires, also under another leader. Every
// node says so. After the thaw each has its full timeout, and then expires.
func TestFreezeInACluster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, localSessions)
		defer c.stop()
		leads := c.leader(within)
		c.founded()
		others := c.others(leads)
		owner, through := others[0], others[1]
		c.eventually("ids for local sessions", within, func() bool { return owner.server.Stats().LocalIDs > 0 })
		const timeout = 10 * time.Second
		client := listen(t, owner)
		open := session.OpenRequest{
			Spec: session.Spec{Timeout: timeout}, RequestID: session.RequestID{200},
			MS: session.MS(time.Now()),
		}
		global, err := client.Open(t.Context(), open)
		if err != nil {
			t.Fatal(err)
		}
		open.RequestID, open.Local = session.RequestID{201}, true
		local, err := client.Open(t.Context(), open)
		if err != nil {
			t.Fatal(err)
		}
		client.Disconnect()
		c.freeze(through, time.Hour)
		time.Sleep(10 * time.Minute)
		c.kill(leads)
		next := c.leader(within)
		time.Sleep(10 * time.Minute)
		if !owner.lives(t, global.Session.ID) || !owner.lives(t, local.Session.ID) {
			t.Fatal("a session expired in a freeze")
		}
		status, err := owner.Status(t.Context())
		if err != nil || status.Freeze == nil || status.Freeze.By != "ops" ||
			!strings.Contains(status.Warning, "frozen for") || status.Frozen > 41*time.Minute || status.Frozen < 39*time.Minute {
			t.Errorf("the status is %v left of %+v, with warning %q, %v", status.Frozen, status.Freeze, status.Warning, err)
		}
		_, vigil, err := owner.server.Explain(t.Context(), global.Session.ID, 0)
		if err != nil || vigil.Frozen < 39*time.Minute || vigil.Remaining < vigil.Frozen+timeout-time.Second {
			t.Errorf("the explanation is %+v, %v", vigil, err)
		}
		c.freeze(next, 0)
		time.Sleep(timeout - 100*time.Millisecond)
		if !owner.lives(t, global.Session.ID) || !owner.lives(t, local.Session.ID) {
			t.Error("a session expired before its timeout after the thaw")
		}
		time.Sleep(2 * time.Second)
		if owner.lives(t, global.Session.ID) || owner.lives(t, local.Session.ID) {
			t.Error("a session outlives its timeout after the thaw")
		}
		if status, err := owner.Status(t.Context()); err != nil || status.Freeze != nil || status.Warning != "" {
			t.Errorf("after the thaw the status is %+v, %q, %v", status.Freeze, status.Warning, err)
		}
	})
}

// Y4: an extended session of a silent client lives for the time that was asked for, also under another leader.
func TestExtendInACluster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, localSessions)
		defer c.stop()
		leads := c.leader(within)
		c.founded()
		others := c.others(leads)
		owner, through := others[0], others[1]
		client := listen(t, owner)
		open := session.OpenRequest{
			Spec: session.Spec{Timeout: 10 * time.Second}, RequestID: session.RequestID{200},
			MS: session.MS(time.Now()),
		}
		one, err := client.Open(t.Context(), open)
		if err != nil {
			t.Fatal(err)
		}
		client.Disconnect()
		extend := session.ExtendRequest{ID: one.Session.ID, For: 5 * time.Minute}
		if _, err = through.server.Extend(t.Context(), extend); err != nil {
			t.Fatal(err)
		}
		_, vigil, err := through.server.Explain(t.Context(), one.Session.ID, 0)
		if err != nil || vigil.Kept < 5*time.Minute-time.Second || vigil.Remaining < vigil.Kept {
			t.Errorf("the explanation is %+v, %v", vigil, err)
		}
		time.Sleep(2 * time.Minute)
		c.kill(leads)
		c.leader(within)
		time.Sleep(2*time.Minute + 50*time.Second)
		if !owner.lives(t, one.Session.ID) {
			t.Error("an extended session expired")
		}
		time.Sleep(90 * time.Second) // a change of the leader loses a minute of the log's time at most (D3 log clock)
		if owner.lives(t, one.Session.ID) {
			t.Error("an extended session lives on and on")
		}
		if _, err := through.server.Extend(t.Context(), extend); !errors.Is(err, session.ErrExpired) {
			t.Errorf("a session that has ended: %v", err)
		}
	})
}
