package proposer

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm/entry"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
	"holdfast/tree/form"
)

// fakeRaft takes entries, and answers each when the test says so and as the test says.
type fakeRaft struct {
	mu      sync.Mutex
	entries []*fakeFuture // guarded by mu
	// answer, when set, is called for each entry on the goroutine that waits for it.
	answer func(*fakeFuture)
}

// fakeFuture is one entry given to a fakeRaft.
type fakeFuture struct {
	raft.ApplyFuture

	commands []session.Command
	clocks   entry.Clocks
	size     int
	timeout  time.Duration
	done     chan struct{}
	response any
	err      error
}

func (r *fakeRaft) Apply(data []byte, timeout time.Duration) raft.ApplyFuture {
	e, err := entry.Decode(data)
	f := &fakeFuture{
		commands: e.Commands, clocks: e.Clocks, size: len(data), timeout: timeout, done: make(chan struct{}), err: err,
	}
	r.mu.Lock()
	r.entries = append(r.entries, f)
	r.mu.Unlock()
	if r.answer != nil {
		r.answer(f)
	}
	return f
}

func (f *fakeFuture) Error() error  { <-f.done; return f.err }
func (f *fakeFuture) Response() any { return f.response }

// apply answers as a state machine does. Each result has its command's mark as its index.
func (f *fakeFuture) apply() {
	results := make([]session.Result, len(f.commands))
	for i, c := range f.commands {
		results[i] = session.Result{Index: markOf(c)}
	}
	f.response = results
	close(f.done)
}

func (f *fakeFuture) fail(err error) {
	f.err = err
	close(f.done)
}

// marked returns a command with the mark n, by which its result can be recognised.
func marked(n int) session.Command { return session.ForgetRequests{UpToIndex: uint64(n)} }

func markOf(c session.Command) uint64 {
	f, _ := c.(session.ForgetRequests)
	return f.UpToIndex
}

// entry returns the i-th entry given to Raft, nil when there is none.
func (r *fakeRaft) entry(i int) *fakeFuture {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if i >= len(r.entries) {
		return nil
	}
	return r.entries[i]
}

// bench is a running Proposer on a fakeRaft, in a bubble.
type bench struct {
	*Proposer

	t       *testing.T
	raft    *fakeRaft
	stop    context.CancelFunc
	stopped chan error
}

func startProposer(t *testing.T, cfg Config) *bench {
	t.Helper()
	r := new(fakeRaft)
	cfg.Logger = hclog.NewNullLogger()
	b := &bench{Proposer: New(cfg, r), t: t, raft: r, stopped: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	b.stop = cancel
	go func() { b.stopped <- b.Run(ctx) }()
	return b
}

// close answers every entry that is still on its way, and stops the Proposer.
func (b *bench) close(t *testing.T) {
	t.Helper()
	for i := 0; ; i++ {
		f := b.raft.entry(i)
		if f == nil {
			break
		}
		select {
		case <-f.done:
		default:
			f.fail(raft.ErrRaftShutdown)
		}
	}
	b.stop()
	if err := <-b.stopped; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if got := b.Stats().Pending; got != 0 {
		t.Errorf("%d proposals are pending after the end, want 0", got)
	}
}

// outcome is what a call of Propose returned, and how long it took.
type outcome struct {
	result session.Result
	err    error
	after  time.Duration
}

// propose calls Propose on a goroutine of its own, and returns once the command is queued, sent or refused.
func (b *bench) propose(ctx context.Context, c session.Command) <-chan outcome {
	done := make(chan outcome, 1)
	start := time.Now()
	go func() {
		result, err := b.Propose(ctx, c)
		done <- outcome{result, err, time.Since(start)}
	}()
	synctest.Wait()
	return done
}

// notYet fails when the call has returned.
func notYet(t *testing.T, done <-chan outcome, when string) {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-done:
		t.Fatalf("%s: Propose returned %v, want it to wait", when, o.err)
	default:
	}
}

func marksOf(f *fakeFuture) []uint64 {
	if f == nil {
		return nil
	}
	var marks []uint64
	for _, c := range f.commands {
		marks = append(marks, markOf(c))
	}
	return marks
}

func inBubble(t *testing.T, cfg Config, f func(b *bench)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		b := startProposer(t, cfg)
		defer b.close(t)
		f(b)
	})
}

// begins returns c with the feature level, and with the default limits if it has none.
func begins(c session.Configure) session.Configure {
	c.Level = session.FeatureLevel
	if c.Limits == (tree.Limits{}) {
		c.Limits = tree.DefaultLimits()
	}
	return c
}

// writing returns the command of a write.
func writing(tb testing.TB, w tree.NumberedWrite) session.TreeCommand {
	tb.Helper()
	encoded, err := form.AppendWrite(nil, w)
	if err != nil {
		tb.Fatalf("AppendWrite: %v", err)
	}
	return session.TreeCommand{Encoded: encoded, Weight: tree.Weight(w.Transaction)}
}
