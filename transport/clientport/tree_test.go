package clientport

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
	"holdfast/tree"
)

func createRequest() *holdfastv1.CreateRequest {
	return &holdfastv1.CreateRequest{Numbering: numbering(3, 2), Create: &holdfastv1.Create{
		Path: "/a", Acl: &holdfastv1.AccessList{Grants: []*holdfastv1.Grant{{Permissions: 1, Scheme: tree.Auth}}},
	}}
}

// A unary write adopts the session of its token, and goes to the node with the client's numbers and principals.
func TestAUnaryWriteIsNumberedAndAdopted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{state: func() session.NodeState { return porttest.StateOf(3) }}
		newest := withTree(service, func(f *fakeTree, asked any) error {
			if w, ok := asked.(session.TreeWrite); ok {
				f.tell(session.TreeMessage{Delivered: 9}) // no answer
				f.answer(session.TreeAnswer{Key: w.Key, Stamp: 7, Wrote: resultOf(w.Write)})
			}
			return nil
		})
		s, network, stop := clientPort(t, Config{Super: "root:x"}, service)
		defer stop()
		ctx := metadata.AppendToOutgoingContext(t.Context(), wire.DigestKey, "me:secret")
		got, err := holdfastv1.NewTreeServiceClient(dialPipes(t, network)).Create(ctx, createRequest())
		if err != nil || got.GetPath() != "/a" || got.GetStamp() != fuzzedStamp || got.GetState().GetIndex() != 3 {
			t.Fatalf("got %v, %v", got, err)
		}
		me, err := wire.DigestFrom("me:secret")
		if err != nil {
			t.Fatal(err)
		}
		f := newest()
		if want := []tree.Principal{{Scheme: tree.Digest, ID: me}}; !slices.Equal(f.principals, want) {
			t.Errorf("the node vouches for %v, want %v", f.principals, want)
		}
		asked := f.requests()
		if len(asked) != 2 || asked[0] != any(adoption{porttest.Grant(7).Token}) {
			t.Fatalf("the node was asked %+v, want an adoption and a write", asked)
		}
		w := asked[1].(session.TreeWrite).Write
		if w.Session != 7 || w.Attachment != 9 || w.Number != 3 || w.Acked != 2 ||
			w.Transaction.Then[0].(tree.Create).ACL[0].ID != me {
			t.Errorf("the write is %+v", w)
		}
		if !f.isClosed() || service.ended() != 1 {
			t.Errorf("the connection was left open")
		}
		if got := s.Stats(); got.TreeWrites != 1 || got.TreeReads != 0 {
			t.Errorf("counted %+v", got)
		}
	})
}

// A refusal of the tree or the node is an error with its detail, and says whether the number is used up.
func TestRefusalsOfUnaryWrites(t *testing.T) {
	refused := &tree.RefusedError{Code: tree.NodeExists, Verb: "create", Path: "/a"}
	for name, tt := range map[string]struct {
		adopt, write error
		answer       session.TreeAnswer
		want         holdfastv1.Reason
		stamp        uint64
	}{
		"by the tree": {
			answer: session.TreeAnswer{Wrote: &tree.Result{Stamp: 5, Outcome: tree.Outcome{Refused: refused}}},
			want:   holdfastv1.Reason_REASON_NODE_EXISTS, stamp: 5,
		},
		"another attachment": {adopt: session.ErrMoved, want: holdfastv1.Reason_REASON_SESSION_MOVED},
		"lagging":            {adopt: session.ErrLagging, want: holdfastv1.Reason_REASON_LAGGING},
		"full": {
			write: &session.LimitError{Name: "queued_requests"}, want: holdfastv1.Reason_REASON_LIMIT,
		},
		"too early": {
			answer: session.TreeAnswer{Err: &tree.GapError{Expected: 2}}, want: holdfastv1.Reason_REASON_GAP,
		},
		"forgotten": {
			answer: session.TreeAnswer{Err: session.ErrOutcomeUnknown}, want: holdfastv1.Reason_REASON_OUTCOME_UNKNOWN,
		},
		"given up": {
			answer: session.TreeAnswer{Wrote: &tree.Result{Stamp: 5, Void: true}},
			want:   holdfastv1.Reason_REASON_INVALID_ARGUMENT,
		},
		"the result of another write": {
			answer: session.TreeAnswer{Wrote: &tree.Result{Stamp: 5}}, want: holdfastv1.Reason_REASON_INVALID_ARGUMENT,
		},
		"the result of a delete": {
			answer: session.TreeAnswer{Wrote: &tree.Result{Stamp: 5, Outcome: tree.Outcome{Ops: []tree.OpOutcome{{}}}}},
			want:   holdfastv1.Reason_REASON_INVALID_ARGUMENT,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				service := &fakeService{}
				newest := withTree(service, func(f *fakeTree, asked any) error {
					if _, ok := asked.(adoption); ok {
						return tt.adopt
					}
					if tt.write == nil {
						f.answer(tt.answer)
					}
					return tt.write
				})
				_, network, stop := clientPort(t, Config{}, service)
				defer stop()
				ctx := metadata.AppendToOutgoingContext(t.Context(), wire.DigestKey, "me:secret")
				_, err := holdfastv1.NewTreeServiceClient(dialPipes(t, network)).Create(ctx, createRequest())
				detail := detailOf(status.Convert(err))
				if detail.GetReason() != tt.want || detail.GetRefusal().GetStamp() != tt.stamp {
					t.Errorf("got %v, %v, want %v with the stamp %d", err, detail, tt.want, tt.stamp)
				}
				if !newest().isClosed() {
					t.Error("the connection was left open")
				}
			})
		})
	}
}

// A refusal by the tree is part of the answer to Transact.
func TestTransactAnswersRefusals(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		withTree(service, func(f *fakeTree, asked any) error {
			if w, ok := asked.(session.TreeWrite); ok {
				f.answer(session.TreeAnswer{Key: w.Key, Wrote: &tree.Result{Stamp: 5, Outcome: tree.Outcome{
					Else: true, At: 1, Refused: &tree.RefusedError{Code: tree.NotEmpty, Verb: "delete", Path: "/a"},
				}}})
			}
			return nil
		})
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		got, err := holdfastv1.NewTreeServiceClient(dialPipes(t, network)).Transact(t.Context(),
			&holdfastv1.TransactRequest{Numbering: numbering(1, 0)})
		refused := got.GetOutcome().GetRefused()
		if err != nil || !got.GetOutcome().GetElse() || refused.GetReason() != holdfastv1.Reason_REASON_NOT_EMPTY ||
			refused.GetRefusal().GetAt() != 1 || refused.GetRefusal().GetStamp() != 5 || got.GetStamp() != 5 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// The outcome of a write is unknown once the node has it and the call ends. Before that, the number is free.
func TestUnaryWritesWhoseCallEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		holds func(asked any) bool
		want  error
	}{
		"at the node":    {func(asked any) bool { _, ok := asked.(session.TreeWrite); return ok }, session.ErrOutcomeUnknown},
		"while adopting": {func(asked any) bool { _, ok := asked.(adoption); return ok }, session.ErrLagging},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				service := &fakeService{}
				newest := withTree(service, nil)
				server := &treeServer{node: &sessionServer{
					cfg: Config{}.withDefaults(), service: service, stats: &counters{}, limiter: ratelimit.New(ratelimit.Config{}),
				}}
				service.tree = adopting(service.tree, tt.holds)
				ended := make(chan error, 1)
				go func() {
					_, err := server.Delete(ctx, &holdfastv1.DeleteRequest{
						Numbering: numbering(1, 0), Delete: &holdfastv1.Delete{Path: "/a"},
					})
					ended <- err
				}()
				if tt.want == session.ErrOutcomeUnknown { //nolint:errorlint // a value of the table
					synctest.Wait()
					cancel()
				}
				if err := <-ended; !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if !newest().isClosed() {
					t.Error("the connection was left open")
				}
			})
		})
	}
}

// adopting makes a tree that lets an adoption wait until its context ends, if holds says so.
func adopting(begin func([]tree.Principal, func()) session.TreeConnection, holds func(any) bool,
) func([]tree.Principal, func()) session.TreeConnection {
	return func(principals []tree.Principal, notify func()) session.TreeConnection {
		return &slowAdoption{TreeConnection: begin(principals, notify), holds: holds}
	}
}

type slowAdoption struct {
	session.TreeConnection
	holds func(any) bool
}

func (s *slowAdoption) Adopt(ctx context.Context, t session.Token) (session.Token, error) {
	if !s.holds(adoption{t}) {
		return t, nil
	}
	<-ctx.Done()
	return session.Token{}, ctx.Err()
}

// Unary writes pass the rate limits as writes, whatever touches may.
func TestUnaryWritesAreAClassOfTheirOwn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		withTree(service, func(f *fakeTree, asked any) error {
			if w, ok := asked.(session.TreeWrite); ok {
				f.answer(session.TreeAnswer{Key: w.Key, Stamp: 7, Wrote: resultOf(w.Write)})
			}
			return nil
		})
		_, network, stop := clientPort(t, Config{RateLimits: ratelimit.Config{Touches: 1, Writes: 1}}, service)
		defer stop()
		client := holdfastv1.NewTreeServiceClient(dialPipes(t, network))
		request := &holdfastv1.DeleteRequest{Numbering: numbering(1, 0), Delete: &holdfastv1.Delete{Path: "/a"}}
		if _, err := client.Delete(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		_, err := client.Delete(t.Context(), request)
		if limit := limitOf(t, err); limit.Name != "max_writes_per_second" || limit.RetryAfter <= 0 {
			t.Errorf("refused by %v", limit)
		}
	})
}
