package whole

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holdfast/auth"
	"holdfast/client"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/authfile"
	"holdfast/transport/authz"
)

// An operator ends all sessions of a caller whom the nodes know by its token: at all nodes, and local sessions, which
// only their own nodes know. Sessions of other callers live on, also those of a caller with a longer name.
func TestKillTheSessionsOfACaller(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth.yaml")
	tokens := map[string]auth.Token{"web": auth.NewToken(), "webhook": auth.NewToken(), "ops": auth.NewToken()}
	authfile.Write(t, file, tokens, map[string]auth.Roles{"web": auth.Client, "webhook": auth.Client, "ops": auth.Operator})
	RunSetup(t, Setup{Change: func(cfg *config.Config) {
		cfg.Auth.Mode, cfg.Auth.File = authz.Tokens, file
		cfg.Sessions.Local = true
	}}, func(c *Cluster) {
		t, ctx := c.T, context.Background()
		at := func(host, name string, nodes ...string) *client.Client {
			cl, err := client.New(client.Config{
				Endpoints: nodes, OnlyEndpoints: true, Dial: c.Host(host).Dial, TokenWithoutTLS: true,
				Token: client.StaticToken(tokens[name].Secret()),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cl.Close() })
			return cl
		}
		var theirs []*client.Session
		var ids []session.ID
		open := func(cl *client.Client, local bool) *client.Session {
			s, err := cl.Open(ctx, client.SessionOptions{Timeout: 20 * time.Second, Local: local})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		for i, n := range c.Names {
			web := at("web"+n, "web", n+":7400")
			for _, local := range []bool{false, true} {
				s := open(web, local)
				theirs, ids = append(theirs, s), append(ids, s.ID())
			}
			if owner := theirs[2*i+1].ID().Node(); owner != session.Node(i+1) {
				t.Errorf("the local session at %s has an id of node %d", n, owner)
			}
		}
		other := open(at("hook", "webhook", "n2:7400"), false)
		ops := at("ops", "ops", "n1:7400")
		if some, err := client.SessionsOf(ctx, ops, "we"); err != nil || len(some.IDs) != 0 {
			t.Errorf("sessions of a part of the name: %+v, %v", some, err)
		}
		found, err := client.SessionsOf(ctx, ops, "token:web")
		slices.Sort(ids)
		if err != nil || !slices.Equal(found.IDs, ids) || found.More != 0 || len(found.Silent) != 0 {
			t.Fatalf("sessions of web: %+v, %v, want %v", found, err, ids)
		}
		killed, err := ops.Kill(ctx, found.IDs, "stuck")
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range killed {
			if one.Err != nil {
				t.Errorf("session %v: %v", found.IDs[i], one.Err)
			}
		}
		for i, s := range theirs {
			select {
			case <-s.Done():
			case <-time.After(time.Minute):
				t.Fatalf("session %v lives on", s.ID())
			}
			gone, ok := errors.AsType[*session.ExpiredError](s.Err())
			if !ok || gone.Certificate == nil || gone.Certificate.Cause != session.CauseKilled {
				t.Errorf("session %v: %v", s.ID(), s.Err())
			}
			name := c.Names[i/2]
			one, failed := at("ops"+name, "ops", name+":7400").Explain(ctx, s.ID())
			if failed != nil || one.Certificate == nil || one.Certificate.Story.By != "token:ops" ||
				one.Certificate.Story.Why != "stuck" {
				t.Errorf("session %v at %s: %+v, %v", s.ID(), name, one.Certificate, failed)
			}
		}
		if ended := other.Err(); ended != nil {
			t.Errorf("the session of another caller: %v", ended)
		}
		again, err := ops.Kill(ctx, found.IDs, "")
		for i, one := range again {
			if gone, ok := errors.AsType[*session.ExpiredError](one.Err); !ok || gone.LocalTo != 0 {
				t.Errorf("session %v, again: %v", found.IDs[i], one.Err)
			}
		}
		if err != nil {
			t.Error(err)
		}
		last := open(at("webn3", "web", "n3:7400"), true)
		c.Cut("ops", "n3")
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		killed, err = ops.Kill(bounded, []session.ID{last.ID()}, "")
		if err == nil && (killed[0].Err == nil || errors.Is(killed[0].Err, session.ErrExpired)) {
			t.Errorf("a local session of a node that does not answer: %+v", killed)
		}
	})
}
