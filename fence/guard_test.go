package fence_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"holdfast/fence"
	"holdfast/test/bubble"
)

// stale reports whether err refuses token because of newest.
func stale(err error, token, newest fence.Token) bool {
	refused, ok := errors.AsType[*fence.StaleError](err)
	return ok && refused.Token == token && refused.Newest == newest
}

// TestGuardModel runs random admissions, writes and forgetting on a guard and on a plain map.
func TestGuardModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 3).Draw(t, "limit")
		g, newest := fence.NewGuard(limit), map[string]fence.Token{}
		failed := errors.New("failed")
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			resource := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "resource")
			token := rapid.OneOf(rapid.Map(rapid.Uint64Range(0, 9), func(n uint64) fence.Token { return fence.Token(n) }),
				rapid.SampledFrom([]fence.Token{fence.Max, fence.Max + 1})).Draw(t, "token")
			kept, known := newest[resource]
			var err, fails error
			wrote, writes := false, true
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				g.Forget(resource)
				delete(newest, resource)
				continue
			case 1:
				writes = false
				err = g.Admit(resource, token)
			case 2:
				fails = failed
				fallthrough
			default:
				err = g.Do(context.Background(), resource, token, func(context.Context) error {
					wrote = true
					return fails
				})
			}
			var right bool
			switch {
			case token == 0 || token > fence.Max:
				_, right = errors.AsType[*fence.TokenError](err)
			case !known && len(newest) == limit:
				var full *fence.FullError
				right = errors.As(err, &full) && full.Resource == resource && full.Max == limit
			case token < kept:
				right = stale(err, token, kept)
			default:
				newest[resource] = token
				if right = errors.Is(err, fails) && wrote == writes; right {
					continue
				}
			}
			if !right || wrote {
				t.Fatalf("%q, token %v after %v: %v, wrote %v", resource, token, kept, err, wrote)
			}
		}
	})
}

// writers are goroutines of a bubble that write to a guard's resource "a".
type writers struct {
	t     *testing.T
	guard *fence.Guard
	all   sync.WaitGroup
	// wrote lists the tokens of the writes in their order. The guard lets one write run at a time.
	wrote []fence.Token
}

// write starts a write. It returns once the write has ended, waits or has been refused. want is the error of the write.
func (w *writers) write(ctx context.Context, token fence.Token, want error) {
	ended := make(chan struct{})
	close(ended)
	w.writeUntil(ctx, ended, token, want)
}

// lasting begins a write that runs until end is called.
func (w *writers) lasting(token fence.Token) (end func()) {
	ended := make(chan struct{})
	w.writeUntil(context.Background(), ended, token, nil)
	return func() { close(ended) }
}

func (w *writers) writeUntil(ctx context.Context, ended <-chan struct{}, token fence.Token, want error) {
	w.all.Go(func() {
		err := w.guard.Do(ctx, "a", token, func(context.Context) error {
			w.wrote = append(w.wrote, token)
			<-ended
			return nil
		})
		if !errors.Is(err, want) && (want == nil || err == nil || err.Error() != want.Error()) {
			w.t.Errorf("token %v: %v, want %v", token, err, want)
		}
	})
	synctest.Wait()
}

// ended waits for all writes and requires that those of the given tokens ran, in this order.
func (w *writers) ended(want ...fence.Token) {
	w.t.Helper()
	w.all.Wait()
	if !slices.Equal(w.wrote, want) {
		w.t.Errorf("%v wrote, want %v", w.wrote, want)
	}
}

func guardBubble(t *testing.T, f func(w *writers)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) { f(&writers{t: t, guard: fence.NewGuard(2)}) })
}

// TestWritesWaitTheirTurn: a newer token waits for the write of an older token. From then on, no write of an older
// token starts, not even a write that waited before.
func TestWritesWaitTheirTurn(t *testing.T) {
	guardBubble(t, func(w *writers) {
		ctx := context.Background()
		end := w.lasting(5)
		w.write(ctx, 6, &fence.StaleError{Resource: "a", Token: 6, Newest: 8})
		w.write(ctx, 8, nil)
		w.write(ctx, 7, &fence.StaleError{Resource: "a", Token: 7, Newest: 8})
		if err := w.guard.Do(ctx, "b", 1, func(context.Context) error { return nil }); err != nil {
			w.t.Errorf("another resource: %v", err)
		}
		if !slices.Equal(w.wrote, []fence.Token{5}) {
			w.t.Errorf("%v wrote while 5 writes", w.wrote)
		}
		end()
		w.ended(5, 8)
	})
}

// TestAdmitWaitsForAWrite: once a token is admitted, no write of an older token runs.
func TestAdmitWaitsForAWrite(t *testing.T) {
	guardBubble(t, func(w *writers) {
		end := w.lasting(5)
		admitted := make(chan error, 2)
		go func() { admitted <- w.guard.Admit("a", 8) }()
		synctest.Wait()
		go func() { admitted <- w.guard.Admit("a", 9) }()
		synctest.Wait()
		if len(admitted) != 0 {
			w.t.Errorf("%d are admitted while 5 writes", len(admitted))
		}
		end()
		if first, second := <-admitted, <-admitted; !stale(first, 8, 9) || second != nil {
			w.t.Errorf("8 and 9 are admitted: %v, %v", first, second)
		}
		w.ended(5)
	})
}

// TestAWriteThatIsGivenUp: a write whose context ends while it waits is not carried out. Its token counts.
func TestAWriteThatIsGivenUp(t *testing.T) {
	guardBubble(t, func(w *writers) {
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errors.New("too late"))
		defer cancel()
		end := w.lasting(5)
		began := time.Now()
		err := w.guard.Do(ctx, "a", 7, func(context.Context) error { panic("it was called") })
		if !errors.Is(err, context.Cause(ctx)) || time.Since(began) != time.Second {
			w.t.Errorf("after %v: %v", time.Since(began), err)
		}
		end()
		w.all.Wait()
		w.write(ctx, 7, context.Cause(ctx)) // the guard is free, but the context has ended
		w.write(context.Background(), 6, &fence.StaleError{Resource: "a", Token: 6, Newest: 7})
		w.write(context.Background(), 7, nil)
		w.ended(5, 7)
	})
}

// TestAWriteThatPanics gives up its turn.
func TestAWriteThatPanics(t *testing.T) {
	guardBubble(t, func(w *writers) {
		func() {
			defer func() {
				if recover() == nil {
					w.t.Error("the panic is gone")
				}
			}()
			_ = w.guard.Do(context.Background(), "a", 5, func(context.Context) error { panic("here") })
		}()
		w.write(context.Background(), 5, nil)
		w.ended(5)
	})
}

// TestAForgottenResource: a resource is forgotten once its write has ended. A write that waited meanwhile is checked
// again, and its token counts.
func TestAForgottenResource(t *testing.T) {
	guardBubble(t, func(w *writers) {
		ctx := context.Background()
		end := w.lasting(5)
		w.all.Go(func() { w.guard.Forget("a") })
		synctest.Wait()
		w.write(ctx, 6, nil)
		w.all.Go(func() {
			if err := w.guard.Admit("a", 6); err != nil {
				w.t.Error(err)
			}
		})
		w.all.Go(func() { w.guard.Forget("unknown") })
		synctest.Wait()
		end()
		w.ended(5, 6)
		w.write(ctx, 5, &fence.StaleError{Resource: "a", Token: 5, Newest: 6})
		w.guard.Forget("a")
		w.write(ctx, 5, nil)
		w.ended(5, 6, 5)
	})
}

// TestWritesOfManyGoroutines: the writes of each resource run one at a time, and their tokens never fall.
func TestWritesOfManyGoroutines(t *testing.T) {
	const resources, goroutines, writes = 3, 8, 300
	g := fence.NewGuard(resources)
	var all sync.WaitGroup
	var last [resources]fence.Token
	var refused, wrote [goroutines]int
	for i := range goroutines {
		all.Go(func() {
			for n := range writes {
				of := (i + n) % resources
				token := fence.Token(10 + n/10 - i%2)
				err := g.Do(context.Background(), fmt.Sprint(of), token, func(context.Context) error {
					if last[of] > token {
						t.Errorf("%v writes after %v", token, last[of])
					}
					runtime.Gosched()
					last[of] = token // the race detector sees two writes at a time
					return nil
				})
				if _, older := errors.AsType[*fence.StaleError](err); older {
					refused[i]++
				} else if err == nil {
					wrote[i]++
				}
			}
		})
	}
	all.Wait()
	var sum [2]int
	for i := range goroutines {
		sum[0] += wrote[i]
		sum[1] += refused[i]
	}
	if sum[0]+sum[1] != goroutines*writes || sum[0] == 0 || sum[1] == 0 {
		t.Errorf("%d writes, %d refused", sum[0], sum[1])
	}
}

// TestLongNames: the guard keeps no name that is longer than a path.
func TestLongNames(t *testing.T) {
	g := fence.NewGuard(0) // of one resource
	long := strings.Repeat("a", fence.MaxName+1)
	err := g.Admit(long, 1)
	if refused, ok := errors.AsType[*fence.NameError](err); !ok || refused.Bytes != len(long) {
		t.Error(err)
	}
	if err := g.Admit(long[1:], 1); err != nil {
		t.Error(err)
	}
	if _, full := errors.AsType[*fence.FullError](g.Admit("b", 1)); !full {
		t.Error("a guard of one resource keeps two")
	}
}
