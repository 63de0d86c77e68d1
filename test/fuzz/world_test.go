// Package fuzz gives whole parts of a node, put together as in production, what an enemy could send them: any messages
// on a client's connection, any messages of a node to the leader, any messages of a leader to a node. Only consensus is
// left out: an entry is applied the moment it is proposed, so that a fuzzer gets thousands of lives a minute.
package fuzz

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"

	"holdfast/fsm"
	"holdfast/leader"
	"holdfast/learner"
	"holdfast/session"
	"holdfast/test/fuzz/bound"
	"holdfast/transport/clientport"
)

const (
	term     = 7
	interval = 500 * time.Millisecond
	shortest = 4 * time.Second
	longest  = 8 * time.Second
)

// ofMessages is what messages of the wire may take in a node: the fixed part is the node itself.
func ofMessages() bound.Cost {
	return bound.Cost{PerByte: 16 << 10, Fixed: 8 << 20, Time: 30 * time.Second}
}

// key is the cluster's, so that seeds can hold credentials.
func key() session.Key { return session.Key{1, 2, 3} }

func tokenOf(s session.Session) session.Token {
	k := key()
	return session.Token{ID: s.ID, Credential: k.Credential(s.ID), Attachment: s.Attachment}
}

// world is the state that all nodes have applied, and the tracker of the leader, node 1.
type world struct {
	t       *testing.T
	state   *fsm.State
	tracker *leader.Tracker
	members []session.Member

	// local allows local sessions on the nodes that learner makes from then on.
	local bool

	// alarms are the log's errors, which a panic that was recovered is.
	alarms *alarms

	mu    sync.Mutex
	index uint64 // guarded by mu

	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// newWorld returns a world of nodes 1 to voters whose tracker runs, with what commands have made. The test defers stop.
func newWorld(t *testing.T, voters int, commands ...session.Command) *world {
	t.Helper()
	w := &world{t: t, alarms: &alarms{}}
	for n := range voters {
		w.members = append(w.members, session.Member{Node: session.Node(n + 1), Voter: true})
	}
	w.state = fsm.New(fsm.Config{Logger: w.alarms.logger(), Fatal: func(err error) {
		t.Errorf("the state is halted: %v", err)
	}})
	for _, c := range append([]session.Command{session.Configure{Key: key()}}, commands...) {
		if _, err := w.Propose(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	w.tracker = leader.New(leader.Config{
		Node: 1, Term: term, Interval: interval, Limits: session.Limits{Min: shortest, Max: longest},
		Logger: w.alarms.logger(),
	}, w, view{w})
	frozen, _ := w.state.Observe(w.tracker)
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.ended.Go(func() { _ = w.tracker.Run(ctx, frozen) })
	return w
}

func (w *world) stop() {
	w.t.Helper()
	w.cancel()
	w.ended.Wait()
	if text := w.alarms.String(); strings.Contains(text, "panic") { // one that was recovered
		w.t.Errorf("the log says:\n%s", text)
	}
}

// Propose applies c at once: the log of a cluster in which nothing fails.
func (w *world) Propose(_ context.Context, c session.Command) (session.Result, error) {
	data, err := fsm.EncodeEntry([]session.Command{c})
	if err != nil {
		return session.Result{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index++
	results, ok := w.state.Apply(&raft.Log{Index: w.index, Term: term, Data: data}).([]session.Result)
	if !ok {
		return session.Result{}, errors.New("the state is halted")
	}
	return results[0], nil
}

// view is what every node of the world reads.
type view struct{ w *world }

func (v view) Session(id session.ID) (session.Session, bool) { return v.w.state.Session(id) }

func (v view) Certificate(id session.ID) (session.Certificate, bool) {
	return v.w.state.Certificate(id)
}

func (v view) Credential(id session.ID) (session.Credential, bool) { return v.w.state.Credential(id) }

func (v view) Verify(id session.ID, c session.Credential) bool { return v.w.state.Verify(id, c) }

func (v view) AppliedIndex() uint64      { return v.w.state.AppliedIndex() }
func (v view) ShownIndex() uint64        { return v.w.state.ShownIndex() }
func (v view) Attachment() uint64        { return v.w.state.Attachment() }
func (v view) Term() uint64              { return term }
func (v view) CommitIndex() uint64       { return v.w.state.AppliedIndex() }
func (v view) LastIndex() uint64         { return v.w.state.AppliedIndex() }
func (v view) Members() []session.Member { return v.w.members }

func (v view) DigestAt(index uint64) ([16]byte, bool) { return v.w.state.DigestAt(index) }

func (v view) Ascend(after session.ID, yield func(session.Session) bool) {
	v.w.state.Frozen().Ascend(after, yield)
}

func (v view) WaitApplied(ctx context.Context, index uint64) error {
	return v.w.state.WaitApplied(ctx, index)
}

// learner returns the server of a node, which runs.
func (w *world) learner(ctx context.Context, n session.Node) *learner.Server {
	s := learner.NewServer(learner.Config{
		Node: n, Interval: interval, Limits: session.Limits{Min: shortest, Max: longest}, Local: w.local,
		Upgrade: w.local, LaggingWait: time.Second, Try: func() []string { return []string{"other:7400"} },
		Logger: w.alarms.logger(),
	}, view{w})
	w.state.Observe(s)
	w.ended.Go(func() { _ = s.Run(ctx) })
	return s
}

// follow keeps a node's server on the tracker until ctx ends.
func (w *world) follow(ctx context.Context, n session.Node, s *learner.Server) {
	l := newLink(ctx)
	w.ended.Go(func() {
		_ = w.tracker.Follow(l.ctx, session.Hello{Node: n, Incarnation: 1, Stream: 1}, leaderEnd{l})
		l.cancel()
	})
	w.ended.Go(func() { _ = s.Follow(learnerEnd{l}) })
}

// link is a stream between a leader and a learner without a network.
type link struct {
	ctx    context.Context //nolint:containedctx // it is the link's life
	cancel context.CancelFunc
	down   chan session.LeaderMessage
	up     chan session.LearnerMessage
}

func newLink(ctx context.Context) *link {
	ctx, cancel := context.WithCancel(ctx)
	return &link{ctx, cancel, make(chan session.LeaderMessage), make(chan session.LearnerMessage)}
}

func (l *link) Close() error { l.cancel(); return nil }

type leaderEnd struct{ *link }

func (l leaderEnd) Send(m session.LeaderMessage) error    { return give(l.ctx, l.down, m) }
func (l leaderEnd) Recv() (session.LearnerMessage, error) { return take(l.ctx, l.up) }

type learnerEnd struct{ *link }

func (l learnerEnd) Send(m session.LearnerMessage) error  { return give(l.ctx, l.up, m) }
func (l learnerEnd) Recv() (session.LeaderMessage, error) { return take(l.ctx, l.down) }

func give[M any](ctx context.Context, to chan<- M, m M) error {
	select {
	case to <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func take[M any](ctx context.Context, from <-chan M) (m M, err error) {
	select {
	case m = <-from:
		return m, nil
	case <-ctx.Done():
		return m, ctx.Err()
	}
}

// alarms keeps the errors of a log.
type alarms struct {
	mu   sync.Mutex
	text strings.Builder
}

func (a *alarms) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.Write(b)
}

func (a *alarms) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.String()
}

func (a *alarms) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: a, Level: hclog.Error})
}

// pipes is a network of net.Pipe: a listener and what dials it.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipes) dial(ctx context.Context, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// noCluster answers for ClusterService.
type noCluster struct{}

func (noCluster) Status(context.Context) (clientport.NodeStatus, error) {
	return clientport.NodeStatus{Node: 1}, nil
}
func (noCluster) Members() []clientport.Member { return nil }

// parts cuts what a fuzzer made into messages, each behind its length; the rest is the last one.
func parts(b []byte) (all [][]byte) {
	for len(b) > 0 {
		part, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return append(all, b)
		}
		all, b = append(all, part), b[n:]
	}
	return all
}

// joined appends a message in the form that parts takes apart.
func joined(to, message []byte) []byte { return protowire.AppendBytes(to, message) }

// sleep waits in the bubble's time.
func sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
