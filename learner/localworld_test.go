package learner

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/bubble"
)

// firstLocal is the first id that node 1 claims in these tests.
const firstLocal session.ID = 1<<56 | 5<<16

// width is that of the buckets of the local sessions' queue, and look how often the server looks at it.
const (
	width = 250 * time.Millisecond
	look  = interval / 4
)

// awake is a machine that is never suspended.
func awake(time.Duration) bool { return false }

// localWith returns a Local of node 1 with ids from first on.
func localWith(first session.ID, count uint32) *Local {
	l := newLocal(1, width, awake, newIDPool())
	l.ids.supply(first, count)
	return l
}

// localWorld has a server that takes local sessions and has no ids for them yet.
func localWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, Config{
		Node: 1, Interval: interval, ExpiryInterval: width,
		Limits: session.Limits{Min: time.Second, Max: 20 * time.Second}, Local: true, Upgrade: true,
		LaggingWait: time.Second, Try: func() []string { return nil }, Logger: hclog.NewNullLogger(),
	})
}

// stocked has one whose leader has given it ids from firstLocal on.
func stocked(t *testing.T) *world {
	t.Helper()
	w := localWorld(t)
	w.follow()
	w.claims(firstLocal)
	return w
}

// claims answers the server's next claim.
func (w *world) claims(first session.ID) {
	w.t.Helper()
	r := w.leader.request()
	if r.Claim == nil || r.Claim.Count != session.MaxClaim {
		w.t.Fatalf("asked for %+v, want a claim of %d ids", r, session.MaxClaim)
	}
	w.leader.reply(session.Reply{Seq: r.Seq, First: first})
	synctest.Wait()
}

func (w *world) openLocal(conn session.Connection, request byte) session.Grant {
	w.t.Helper()
	g, err := conn.Open(w.t.Context(),
		session.OpenRequest{Local: true, Timeout: timeout, RequestID: session.RequestID{request}, MS: 7})
	if err != nil {
		w.t.Fatalf("opening a local session: %v", err)
	}
	return g
}

func (w *world) connect(e session.Events) session.Connection {
	w.t.Helper()
	c, err := w.server.Connect(e)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func TestLocalCertificatesAreBounded(t *testing.T) {
	l := localWith(firstLocal, session.MaxClaim)
	request := func(n int) session.RequestID { return session.RequestID{byte(n), byte(n >> 8)} }
	const more = 5
	for n := range localCertificates + more {
		s, err := l.open(
			opening{OpenRequest: session.OpenRequest{RequestID: request(n)}, timeout: timeout, conn: &connection{}}, 0,
		)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.close(s, 0, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.ended) != localCertificates || len(l.requests) != localCertificates || len(l.ring) != localCertificates ||
		len(l.order) > 1024+1 {
		t.Errorf("keeps %d ends, %d requests, %d of the order", len(l.ended), len(l.requests), len(l.order))
	}
	for n, want := range map[session.ID]bool{0: false, more - 1: false, more: true, localCertificates +
		more - 1: true} {
		if _, got := l.certificate(firstLocal + n); got != want {
			t.Errorf("certificate %d is there: %v, want %v", n, got, want)
		}
	}
}

// A node that has been started again may not have applied yet that a session of its former process became global: it
// does not say that it ended.
func TestM5ALocalTokenFromBeforeTheNodesProcess(t *testing.T) {
	const id = firstLocal - 7
	for name, ask := range map[string]func(c session.Connection, ctx context.Context, t session.Token) error{
		"touch": func(c session.Connection, ctx context.Context, t session.Token) error {
			_, err := c.TouchToken(ctx, t)
			return err
		},
		"upgrade": func(c session.Connection, ctx context.Context, t session.Token) error {
			_, err := c.Upgrade(ctx, t)
			return err
		},
	} {
		for what, want := range map[string]error{
			"global": session.ErrMoved, "gone": session.ErrExpired,
			"no leader": session.ErrNoLeader,
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					w := stocked(t)
					credential, _ := w.view.Credential(id)
					told := make(chan error, 1)
					if what == "no leader" {
						w.leader.end()
						synctest.Wait()
					}
					go func() {
						told <- ask(w.conn, t.Context(),
							session.Token{ID: id, Credential: credential, Attachment: 1, Local: true})
					}()
					synctest.Wait()
					if what != "no leader" {
						if len(told) > 0 {
							t.Fatalf("told %v before the leader was asked", <-told)
						}
						r := w.leader.request()
						if what == "global" {
							w.view.put(session.Session{ID: id, Timeout: timeout, Owner: 1, Attachment: 3})
						}
						w.leader.reply(session.Reply{Seq: r.Seq})
					}
					if err := <-told; !errors.Is(err, want) {
						t.Errorf("got %v, want %v", err, want)
					}
				})
			})
		}
	}
}

// Pages of both kinds, in the order of ids, hold each session once.
func TestLocalSessionsAreListed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		var want []session.ID
		for n := range byte(5) {
			id := w.openLocal(w.conn, n+1).Session.ID
			w.view.put(session.Session{ID: id + 1<<40, Timeout: timeout, Owner: 2, Attachment: uint64(n) + 1})
			w.view.put(session.Session{ID: session.ID(n) + 1, Timeout: timeout, Owner: 2, Attachment: uint64(n) + 10})
			want = append(want, id, id+1<<40, session.ID(n)+1)
		}
		slices.Sort(want)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan struct{})
		go func() {
			defer close(served)
			for {
				select {
				case m := <-w.leader.toLeader:
					w.leader.reply(
						session.Reply{
							Seq: m.Request.Seq, Remaining: make([]time.Duration, len(m.Request.Read.Remaining)),
						},
					)
				case <-ctx.Done():
					return
				}
			}
		}()
		defer func() { cancel(); <-served }()
		for size := 1; size <= len(want)+1; size++ {
			var got []session.ID
			q := session.Query{Size: size}
			for more := true; more; {
				page, err := w.server.List(t.Context(), q)
				if err != nil || len(page.Sessions) > size {
					t.Fatalf("page of %d: %d sessions, %v", size, len(page.Sessions), err)
				}
				for _, l := range page.Sessions {
					got = append(got, l.Session.ID)
				}
				q.After, more = page.Next, page.Next != 0
			}
			if !slices.Equal(got, want) {
				t.Errorf("in pages of %d: %v\nwant %v", size, got, want)
			}
		}
		for scope, n := range map[session.Scope]int{session.ScopeLocal: 5, session.ScopeGlobal: 10, 0: 15} {
			page, err := w.server.List(t.Context(), session.Query{Size: 100, Filter: session.Filter{Scope: scope}})
			if err != nil || len(page.Sessions) != n {
				t.Errorf("scope %d: %d sessions, %v; want %d", scope, len(page.Sessions), err, n)
			}
		}
	})
}

// An upgrade between the reads of both kinds shows a session in either: once, as the global one.
func TestMergeKeepsTheGlobalOne(t *testing.T) {
	listed := func(local bool, ids ...session.ID) (page session.Page) {
		for _, id := range ids {
			page.Sessions = append(page.Sessions, session.Listed{Session: session.Session{ID: id, Local: local}})
		}
		return page
	}
	for size, want := range map[int]string{10: "1g 2g 3l 4g", 3: "1g 2g 3l", 2: "1g 2g"} {
		page := merge(listed(false, 1, 2, 4), listed(true, 2, 3, 4), size)
		var got []string
		for _, l := range page.Sessions {
			kind := "g"
			if l.Session.Local {
				kind = "l"
			}
			got = append(got, strconv.Itoa(int(l.Session.ID))+kind)
		}
		if s := strings.Join(got, " "); s != want || (page.Next != 0) != (size < 4) {
			t.Errorf("a page of %d: %q and next %v, want %q", size, s, page.Next, want)
		}
	}
}

// More upgrades than are remembered leave nothing behind.
func TestUpgradedRequestsAreBounded(t *testing.T) {
	l := localWith(firstLocal, session.MaxClaim)
	const more = 5
	c := &connection{}
	open := func(n int) (*local, error) {
		return l.open(
			opening{
				OpenRequest: session.OpenRequest{RequestID: session.RequestID{byte(n), byte(n >> 8)}},
				timeout:     timeout, conn: c,
			}, 0,
		)
	}
	for n := range localCertificates + more {
		s, err := open(n)
		if err != nil {
			t.Fatal(err)
		}
		if !l.handOver(s.facts.ID, c, session.ErrMoved, func(*local) {}) {
			t.Fatal("not handed over")
		}
	}
	if len(l.requests) != localCertificates || len(l.ring) != localCertificates || len(l.ended) != 0 {
		t.Errorf("keeps %d requests, %d of the past, %d ends", len(l.requests), len(l.ring), len(l.ended))
	}
	_, err := open(more)
	if global, ok := errors.AsType[*globalError](err); !ok || global.id != firstLocal+more {
		t.Errorf("the repeat of an open that is remembered: %v", err)
	}
}

// ends returns how many ends were told.
func (e *events) ends() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.gone)
}
