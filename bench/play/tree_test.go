package play

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/bench/system"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/proc"
	"holdfast/tree"
)

func TestPaced(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		begun := 0
		o, err := paced(t.Context(), func(i int, done func(error)) {
			begun++
			time.AfterFunc(time.Second, func() {
				if i%2 == 1 {
					done(errors.New("odd"))
					return
				}
				done(nil)
			})
		}, func(ctx context.Context) error { return session.Sleep(ctx, 10*pace+pace/2) })
		if err != nil {
			t.Fatal(err)
		}
		if begun != 10 || len(o.took) != 5 || o.at(0) != time.Second || o.at(1) != time.Second {
			t.Errorf("%d requests, times %v; want 10, and a second for each of the 5 that were done", begun, o.took)
		}
		if _, err := paced(t.Context(), func(_ int, done func(error)) { done(nil) },
			func(context.Context) error { return context.Canceled }); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v, want that of what lasts", err)
		}
	})
}

// echo is a tree that sends each change to its watchers, one after the other.
type echo struct {
	system.Treed
	watchers []*watcher
}

type watcher struct {
	onEvent func(error)
	times   int
}

func (w *watcher) Watch(_ string, _ tree.WatchKind, onEvent, done func(error)) {
	w.onEvent = onEvent
	w.times++
	done(nil)
}

func (*watcher) End() {}

func (e *echo) Set(_ system.Session, _ string, _ []byte, done func(error)) {
	done(nil)
	go func() {
		for _, w := range e.watchers {
			time.Sleep(time.Second)
			w.onEvent(nil)
		}
	}()
}

func TestAudienceMeasures(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := &echo{}
		a := &audience{writer: writer{entries: e}}
		for range 5 {
			w := &watcher{}
			e.watchers, a.all = append(e.watchers, w), append(a.all, w)
		}
		s := &stage{Cluster: noServers{}}
		for kind, times := range map[tree.WatchKind]int{tree.WatchData: 8, tree.WatchRecursive: 1} {
			took, _, err := a.measure(t.Context(), s, kind)
			if err != nil || took != 5*time.Second {
				t.Errorf("all events received after %v, %v; want 5 s", took, err)
			}
			if got := e.watchers[0].times; got != times {
				t.Errorf("%v: %d watches set, want %d", kind, got, times)
			}
			e.watchers[0].times = 0
		}
		broken := errors.New("broken")
		e.watchers = nil
		go a.count(broken)
		if err := a.change(t.Context()); !errors.Is(err, broken) {
			t.Errorf("error is %v, want that of a watcher", err)
		}
	})
}

// noServers is a cluster without processes.
type noServers struct{ system.Cluster }

func (noServers) Servers() []*proc.Process { return nil }
