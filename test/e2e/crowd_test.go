//go:build e2e

package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
)

// crowdTimeout is the timeout of sessions in a crowd.
const crowdTimeout = 10 * time.Second

// TestCrowdMoves kills a node that serves 10,000 sessions over ten connections: a follower, and then the leader. Other
// nodes serve all sessions, and none is lost.
func TestCrowdMoves(t *testing.T) {
	const clients, each = 10, 1000
	for _, role := range []string{follows, leads} {
		t.Run(role, func(t *testing.T) {
			c := alone(t, 3)
			l := c.newLedger()
			victim := c.victim(role)
			begin := time.Now()
			var all []*account
			for range clients {
				_, opened := l.clientAt(victim, each, crowdTimeout)
				all = append(all, opened...)
			}
			took(t, "all opened after", time.Since(begin))
			l.awaitOwners(healWithin, all, victim)

			dead := time.Now()
			c.kill(victim)
			l.openInCrowd()
			took(t, "a new session opened after", time.Since(dead))
			l.awaitOwners(2*healWithin, all, c.but(victim)...)
			l.moved(dead, all, c.but(victim)...)
			l.noneEnded(all)
			c.start(victim)
			c.awaitServing(2*healWithin, c.all()...)
			l.noneEnded(all)
		})
	}
}

// openInCrowd opens one more session. A node that thousands reach at once refuses some requests, and the SDK backs off.
func (l *ledger) openInCrowd() {
	l.c.t.Helper()
	x := l.client()
	l.c.await(2*healWithin, "a new session opens", func() (bool, string) {
		ctx, cancel := context.WithTimeout(l.c.t.Context(), healWithin)
		defer cancel()
		s, err := x.Open(ctx, client.SessionOptions{Timeout: crowdTimeout})
		switch {
		case err == nil:
			l.hold(s)
			return true, ""
		case errors.Is(err, session.ErrLimit):
			return false, err.Error()
		}
		l.c.t.Fatal(err)
		return false, ""
	})
}

// TestKillLoop kills any node every few seconds, while 2,000 sessions are held and others are opened and closed. The
// node starts again from its disk. No session is lost, and sessions whose client has gone expire all the same.
func TestKillLoop(t *testing.T) {
	const clients, each, gone = 10, 200, 20
	lasts := 30 * time.Second
	if full {
		lasts = 3 * time.Minute
	}
	c := alone(t, 3)
	l := c.newLedger()
	var all []*account
	for range clients {
		all = append(all, l.open(l.client(), each, crowdTimeout)...)
	}
	leaves := l.client()
	left := l.open(leaves, gone, crowdTimeout)
	l.awaitOwners(healWithin, append(left, all...), c.all()...)
	churned := c.churn(nil)

	leaves.Close()
	kills, leaders := 0, 0
	for end := time.Now().Add(lasts); time.Now().Before(end); kills++ {
		victim := 1 + rand.IntN(c.nodes)
		if s, err := c.status(victim); err == nil && s.Role == "leader" {
			leaders++
		}
		c.kill(victim)
		time.Sleep(time.Second)
		c.start(victim)
		time.Sleep(3 * time.Second)
	}
	healed, opened := time.Now(), churned() // a growing log hides whether nodes agree
	count(t, "nodes killed", "", kills)
	count(t, "leaders among them", "", leaders)
	c.awaitServing(2*healWithin, c.all()...)
	l.awaitOwners(2*healWithin, all, c.all()...)
	took(t, "all served", time.Since(healed))
	l.noneEnded(all)
	for _, a := range left {
		l.kept(a, *c.awaitEnd(a.session.ID(), healed.Add(3*crowdTimeout)).Certificate)
	}
	count(t, "opened and closed in between", "", opened)
	if opened == 0 {
		t.Error("no session was opened and closed while nodes were killed")
	}
}

// churn opens and closes sessions with labels, one after the other, until stop is called. stop returns their number.
func (c *cluster) churn(labels map[string]string) (stop func() int) {
	c.t.Helper()
	x := c.watcher(c.all()...)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil {
			s, err := x.Open(ctx, client.SessionOptions{Timeout: crowdTimeout, Labels: labels})
			if err == nil && s.Close(ctx) == nil {
				n++
			}
		}
		done <- n
	}()
	return func() int {
		cancel()
		return <-done
	}
}
