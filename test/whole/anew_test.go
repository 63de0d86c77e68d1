package whole_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// eventLog records the events of a client without a session.
type eventLog struct {
	mu       sync.Mutex
	entries  []string // guarded by mu
	sessions []string // guarded by mu
}

func (o *eventLog) note(list *[]string, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*list = append(*list, what)
}

// take returns the records since the last call.
func (o *eventLog) take() (entries, sessions []string) {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	entries, sessions = o.entries, o.sessions
	o.entries, o.sessions = nil, nil
	return entries, sessions
}

// watch records changes below /app, and of sessions, until ctx ends.
func (o *eventLog) watch(ctx context.Context, cl *client.Client) (done func()) {
	var watching sync.WaitGroup
	watching.Go(func() {
		for e, err := range cl.Tree().Watch(ctx, "/app", tree.WatchRecursive) {
			switch {
			case err != nil && ctx.Err() == nil:
				o.note(&o.entries, err.Error())
			case err != nil, e.Started:
			case e.Lost:
				o.note(&o.entries, fmt.Sprint("LOST ", errors.Is(e.Reason, session.ErrClusterChanged)))
			default:
				o.note(&o.entries, fmt.Sprintf("%v %s", e.Kind, e.Path))
			}
		}
	})
	watching.Go(func() {
		for e, err := range cl.WatchSessions(ctx) {
			switch {
			case err != nil && ctx.Err() == nil:
				o.note(&o.sessions, err.Error())
			case e.Lost:
				o.note(&o.sessions, fmt.Sprint("LOST ", errors.Is(e.Reason, session.ErrClusterChanged)))
			case e.Opened != nil:
				o.note(&o.sessions, "opened")
			case e.Ended != nil:
				o.note(&o.sessions, "ended")
			}
		}
	})
	return watching.Wait
}

// TestANewClusterOnTheSameAddresses: a new cluster starts on new directories, under a client that watches, mirrors and
// reads. The client learns that events are lost, and why, before the new log has reached the old log's index. It
// receives every later event, and reads show the new cluster.
func TestANewClusterOnTheSameAddresses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		cl := f.operator(0, 1, 2)
		defer cl.Close()
		ctx, cancel := context.WithCancel(t.Context())
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		authors := 0
		write := func(paths ...string) {
			t.Helper()
			authors++
			author := f.client(fmt.Sprint("author", authors), f.endpoints()...)
			defer author.Close()
			s, err := author.Open(t.Context(), client.SessionOptions{Timeout: 10 * time.Second})
			must(s, err)
			for _, path := range paths {
				must(s.Tree().Create(t.Context(), path, nil, client.CreateOptions{Parents: true}))
			}
			must(nil, s.Close(t.Context()))
		}
		write("/app/old")
		var o eventLog
		defer o.watch(ctx, cl)()
		defer cancel()
		mirror, err := cl.Tree().Mirror(t.Context(), "/app")
		must(mirror, err)
		defer mirror.Close()
		once := client.NewOneShot()
		must(cl.Tree().Get(t.Context(), "/app/old", client.WithWatch(once)))
		for i := range 20 {
			write(fmt.Sprint("/app/", i))
		}
		time.Sleep(5 * time.Second)
		if entries, sessions := o.take(); len(entries) < 20 || len(sessions) < 40 {
			t.Fatalf("received %q, %q", entries, sessions)
		}
		before, stamp := cl.SeenIndex(), cl.SeenStamp()

		f.end()
		for i := range f.peers {
			must(nil, os.RemoveAll(filepath.Join(f.dir, fmt.Sprint(i))))
		}
		f.nodes = nil
		f.begin()
		time.Sleep(10 * time.Second)
		if entries, sessions := o.take(); !slices.Equal(entries, []string{"LOST true"}) ||
			!slices.Equal(sessions, []string{"LOST true"}) {
			t.Errorf("received %q, %q, want one LOST each, because the cluster is another one", entries, sessions)
		}
		if cl.SeenIndex() >= before || cl.SeenStamp() >= stamp {
			t.Errorf("the client has seen %d and %v, and had seen %d and %v of the former cluster: the test proves nothing",
				cl.SeenIndex(), cl.SeenStamp(), before, stamp)
		}
		patience, over := context.WithTimeout(t.Context(), 5*time.Second)
		defer over()
		if _, err := once.Wait(patience); !errors.Is(err, session.ErrClusterChanged) {
			t.Errorf("the one-shot watch: %v", err)
		}
		write("/app/new")
		time.Sleep(5 * time.Second)
		entries, sessions := o.take()
		if want := []string{"created /app", "created /app/new"}; !slices.Equal(entries, want) ||
			!slices.Equal(sessions, []string{"opened", "ended"}) {
			t.Errorf("received %q, %q, want %q and a session", entries, sessions, want)
		}
		asking, late := context.WithTimeout(t.Context(), 5*time.Second)
		defer late()
		if _, err := cl.Tree().Get(asking, "/app/new"); err != nil {
			t.Error(err)
		}
		if _, err := cl.List(asking, client.ListOptions{}); err != nil {
			t.Error(err)
		}
		if got := mirror.List("/app"); !slices.Equal(got, []string{"new"}) || mirror.Stamp() > cl.SeenStamp() {
			t.Errorf("the mirror shows %q up to %v, want new, up to %v", got, mirror.Stamp(), cl.SeenStamp())
		}
	})
}
