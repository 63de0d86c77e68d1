package whole

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"holdfast/auth"
	"holdfast/client"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/authfile"
	"holdfast/transport/authz"
)

// ends are clients that open sessions while operators kill them.
type ends struct {
	c      *Cluster
	tokens map[string]auth.Token

	mu     sync.Mutex
	opened map[session.ID]*client.Session // those that operators may kill; guarded by mu
	killed map[session.ID]int             // how many kills of each were answered without an error; guarded by mu
}

// at returns a client with a token, at one node.
func (e *ends) at(host, token, node string) *client.Client {
	cl, err := client.New(client.Config{
		Endpoints: []string{node + ":7400"}, OnlyEndpoints: true, Dial: e.c.Host(host).Dial, TokenWithoutTLS: true,
		Token: client.StaticToken(e.tokens[token].Secret()),
	})
	if err != nil {
		e.c.T.Fatal(err)
	}
	e.c.T.Cleanup(func() { cl.Close() })
	return cl
}

// opens opens sessions one after the other, every third of them a local one.
func (e *ends) opens(cl *client.Client, count int, label string) {
	for i := range count {
		s, err := cl.Open(context.Background(), client.SessionOptions{
			Timeout: 20 * time.Second, Local: i%3 == 2, Labels: map[string]string{"service": label},
		})
		if err != nil {
			e.c.T.Errorf("open %d of %s: %v", i, label, err)
			continue
		}
		e.mu.Lock()
		e.opened[s.ID()] = s
		e.mu.Unlock()
		time.Sleep(7 * time.Millisecond)
	}
}

// kills kills sessions, and checks that each was killed by this call, is being killed by another (M6 closing sessions
// stay), or has ended.
func (e *ends) kills(ops *client.Client, ids []session.ID) {
	if len(ids) == 0 {
		return
	}
	all, err := ops.Kill(context.Background(), ids, "race")
	if err != nil {
		e.c.T.Errorf("kill %d sessions: %v", len(ids), err)
	}
	for i, one := range all {
		gone, ended := errors.AsType[*session.ExpiredError](one.Err)
		switch {
		case one.Err == nil:
			e.mu.Lock()
			e.killed[ids[i]]++
			e.mu.Unlock()
		case errors.Is(one.Err, session.ErrClosing):
		case !ended || gone.LocalTo != 0:
			e.c.T.Errorf("kill %v: %v, want its end, or that it has ended", ids[i], one.Err)
		}
	}
}

// of returns the sessions of a caller, or those with a label.
func (e *ends) of(ops *client.Client, principal, label string) (ids []session.ID) {
	if principal != "" {
		found, err := client.SessionsOf(context.Background(), ops, principal)
		if err != nil || len(found.Silent) > 0 || found.More > 0 {
			e.c.T.Errorf("sessions of %s: %+v, %v", principal, found, err)
		}
		return found.IDs
	}
	page, err := ops.List(context.Background(), client.ListOptions{Labels: map[string]string{"service": label}})
	if err != nil {
		e.c.T.Errorf("list: %v", err)
	}
	for _, one := range page.Sessions {
		ids = append(ids, one.Session.ID)
	}
	return ids
}

// judge checks the end of a session whose caller operators killed.
func (e *ends) judge(id session.ID, s *client.Session) {
	t := e.c.T
	select {
	case <-s.Done():
	case <-time.After(time.Minute):
		t.Errorf("session %v lives on", id)
		return
	}
	gone, ok := errors.AsType[*session.ExpiredError](s.Err())
	if !ok || gone.Certificate == nil || gone.Certificate.Cause != session.CauseKilled {
		t.Errorf("session %v: %v, want its kill", id, s.Err())
	}
	if e.killed[id] != 1 {
		t.Errorf("session %v was killed once, and %d kills were answered so", id, e.killed[id])
	}
}

// Operators at all nodes kill the sessions of a caller and those with a label at the same time, while the caller opens
// more. Each kill is answered: the session ended, another kill is ending it, or it has ended before. Every killed
// session reports its kill, exactly one kill of each was answered so, none is left in the end, and sessions of other
// callers live on.
func TestKillsBesideOpens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth.yaml")
	e := &ends{
		tokens: map[string]auth.Token{"web": auth.NewToken(), "db": auth.NewToken(), "ops": auth.NewToken()},
		opened: make(map[session.ID]*client.Session), killed: make(map[session.ID]int),
	}
	authfile.Write(t, file, e.tokens, map[string]auth.Roles{"web": auth.Client, "db": auth.Client, "ops": auth.Operator})
	RunSetup(t, Setup{Change: func(cfg *config.Config) {
		cfg.Auth.Mode, cfg.Auth.File = authz.Tokens, file
		cfg.Sessions.Local = true
	}}, func(c *Cluster) {
		e.c = c
		var others []*client.Session
		var opening, killing sync.WaitGroup
		opened := make(chan struct{})
		for i, n := range c.Names {
			other := e.at("db"+n, "db", n)
			s, err := other.Open(context.Background(), client.SessionOptions{
				Timeout: 20 * time.Second, Local: i == 2, Labels: map[string]string{"service": "webs"},
			})
			if err != nil {
				c.T.Fatal(err)
			}
			others = append(others, s)
			web := e.at("web"+n, "web", n)
			opening.Go(func() { e.opens(web, 60, "web") })
			for _, principal := range []string{"token:web", ""} {
				ops := e.at(fmt.Sprint("ops", n, principal), "ops", n)
				killing.Go(func() {
					for {
						e.kills(ops, e.of(ops, principal, "web"))
						select {
						case <-opened:
							return
						case <-time.After(time.Duration(10+i) * time.Millisecond):
						}
					}
				})
			}
		}
		opening.Wait()
		close(opened)
		killing.Wait()
		early := len(e.killed)
		last := e.at("last", "ops", c.Names[1])
		for range 100 { // no session is opened any more
			ids := e.of(last, "token:web", "")
			if len(ids) == 0 {
				break
			}
			e.kills(last, ids)
			time.Sleep(100 * time.Millisecond)
		}
		if len(e.opened) != 180 || early < 90 {
			c.T.Errorf("%d sessions were opened, and %d killed meanwhile: want 180, and most of them", len(e.opened),
				early)
		}
		for id, s := range e.opened {
			e.judge(id, s)
		}
		for _, s := range others {
			if err := s.Err(); err != nil || s.SafeUntil().IsZero() {
				c.T.Errorf("session %v of another caller: %v, safe until %v", s.ID(), err, s.SafeUntil())
			}
		}
		c.T.Logf("%d of %d sessions were killed while others were opened", early, len(e.opened))
	})
}
