package learner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"holdfast/session"
	"holdfast/test/bubble"
)

// M5: after a restart a node may not have applied yet that a session of its former process became global. So it does
// not say that the session has ended before it has asked the leader.
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
							w.view.put(session.Session{
								ID: id, Spec: session.Spec{Timeout: timeout}, Owner: 1,
								Attachment: 3,
							})
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

// L5: a local token without an attachment does not speak for a session that was never local.
func TestL5NoAttachmentIsNoToken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		const id = firstLocal + 5
		global := w.open(id, 9)
		none := session.Token{ID: id, Credential: global.Token.Credential, Local: true}
		if _, err := w.conn.TouchToken(t.Context(), none); !errors.Is(err, session.ErrMoved) {
			t.Errorf("touch: %v, want %v", err, session.ErrMoved)
		}
		if got := w.server.table.translate(none); got != none {
			t.Errorf("translated to %+v", got)
		}
	})
}

// L5: at this node, the token from before an upgrade speaks for the same attachment as the new token, until the session
// moves.
func TestL5TokensAcrossAnUpgrade(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was, now := w.upgraded(1, 1) // the numbers are the same, by chance
		if was.Token == now.Token {
			t.Error("a local token is equal to a global one")
		}
		if _, err := w.conn.TouchToken(t.Context(), was.Token); err != nil {
			t.Errorf("touch by the former token: %v", err)
		}
		if again, err := w.conn.Upgrade(t.Context(), was.Token); err != nil || again.Token != now.Token {
			t.Errorf("upgrade by the former token: %+v, %v; want %+v", again.Token, err, now.Token)
		}
		closed := make(chan error, 1)
		go func() { closed <- w.conn.Close(t.Context(), was.Token) }()
		r := w.leader.request()
		if r.Close == nil || *r.Close != now.Token {
			t.Errorf("asked for %+v, want a close of %+v (M2)", r, now.Token)
		}
		w.leader.reply(session.Reply{Seq: r.Seq, Err: session.ErrNotLeader})
		<-closed

		w.move(was.Session.ID, 50)
		if len(w.events.moved) != 1 {
			t.Errorf("told of moves %v, want the move of the session (M4)", w.events.moved)
		}
		for _, tok := range []session.Token{was.Token, now.Token} {
			if _, err := w.conn.TouchToken(t.Context(), tok); !errors.Is(err, session.ErrMoved) {
				t.Errorf("touch by %+v after a move: %v, want %v (I4)", tok, err, session.ErrMoved)
			}
			if _, err := w.conn.Upgrade(t.Context(), tok); !errors.Is(err, session.ErrMoved) {
				t.Errorf("upgrade by %+v after a move: %v, want %v", tok, err, session.ErrMoved)
			}
		}
		if got := w.conn.Touch([]session.ID{was.Session.ID}).Failures; len(got) != 1 ||
			!errors.Is(got[0].Err, session.ErrMoved) {
			t.Errorf("touch on its connection after a move: %v", got)
		}
	})
}

// L5: a local token of an attachment older than the upgraded one speaks for nothing.
func TestL5AFormerLocalAttachment(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		old := w.openLocal(w.conn, 1).Token
		fresh, err := w.conn.Resume(t.Context(), session.ResumeRequest{Token: old, Instance: 1, Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.conn.Upgrade(t.Context(), old); !errors.Is(err, session.ErrMoved) {
			t.Errorf("upgrade by a former token: %v, want %v", err, session.ErrMoved)
		}
		done := w.upgrade(w.conn, fresh.Token)
		seq, r := w.asked()
		s := w.global(r, 40)
		w.leader.reply(session.Reply{Seq: seq, Session: s, Index: 1})
		<-done
		if _, err := w.conn.TouchToken(t.Context(), old); !errors.Is(err, session.ErrMoved) {
			t.Errorf("touch by a former token: %v, want %v", err, session.ErrMoved)
		}
	})
}
