// Package raft_test shows that Holdfast avoids the traps of the Raft library on which it is built. A control first
// springs each trap: a test against a trap that does not exist proves nothing. README.md lists the traps and their
// tests, also the tests in other packages.
package raft_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/fsm/entry"
	"holdfast/session"
	"holdfast/test/sim/simnet"
	"holdfast/transport/raftnet"
)

// Raft's times, with a node's defaults.
const (
	electionTimeout  = time.Second
	leaseTimeout     = 500 * time.Millisecond
	commitTimeout    = 10 * time.Millisecond
	transportTimeout = 1500 * time.Millisecond
)

// cluster is Raft on Holdfast's transport and state, on a simulated network, in a bubble.
type cluster struct {
	*simnet.Network
	t     *testing.T
	peers []*peer
}

// peer is one server.
type peer struct {
	*raft.Raft
	name      string
	node      session.Node
	host      *simnet.Host
	state     *fsm.State
	logs      *logs
	snapshots *snapshots
	layer     *raftnet.Layer
	transport wire
}

// wire is a raft.NetworkTransport, or one with a change.
type wire interface {
	raft.Transport
	CloseStreams()
	Close() error
}

// options say what differs from production.
type options struct {
	// peers is the number of servers, of which the first voters vote; voters 0 lets all vote.
	peers, voters int
	// transport makes Raft's transport over a layer; nil makes production's.
	transport func(*raftnet.Layer) wire
	// bare replaces it by Raft's own transport on bare connections, with this timeout.
	bare time.Duration
	// prepare, when set, is called before a server starts.
	prepare func(*peer, *raft.Config)
	// machine, when set, makes Raft's state machine.
	machine func(*fsm.State) raft.FSM
}

// start starts a cluster. The test defers stop: a goroutine that is left makes the bubble panic.
func start(t *testing.T, o options) *cluster {
	t.Helper()
	c := &cluster{Network: simnet.New(func(string, string) time.Duration { return time.Millisecond }), t: t}
	var first raft.Configuration
	for i := range o.peers {
		p := &peer{name: fmt.Sprintf("n%d", i+1), node: session.Node(i + 1)}
		p.host = c.Host(p.name)
		c.peers = append(c.peers, p)
		suffrage := raft.Voter
		if o.voters > 0 && i >= o.voters {
			suffrage = raft.Nonvoter
		}
		first.Servers = append(first.Servers,
			raft.Server{Suffrage: suffrage, ID: raft.ServerID(p.name), Address: p.address()})
	}
	for _, p := range c.peers {
		if err := p.start(first, o); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (p *peer) address() raft.ServerAddress { return raft.ServerAddress(p.name + ":7401") }

// start starts a server as a node does.
func (p *peer) start(first raft.Configuration, o options) error {
	listener, err := p.host.Listen(string(p.address()))
	if err != nil {
		return err
	}
	p.connect(listener, o)
	p.logs = &logs{InmemStore: raft.NewInmemStore()}
	p.snapshots = &snapshots{InmemSnapshotStore: raft.NewInmemSnapshotStore()}
	if err = p.run(o); err != nil {
		return err
	}
	if o.voters > 0 && int(p.node) > o.voters {
		return nil // an observer learns the configuration from others
	}
	return p.BootstrapCluster(first).Error()
}

// run runs Raft on the server's stores and its transport.
func (p *peer) run(o options) (err error) {
	p.state = fsm.New(fsm.Config{Logger: hclog.NewNullLogger(), Fatal: func(error) {}})
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(p.name)
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = electionTimeout, electionTimeout,
		leaseTimeout
	conf.CommitTimeout, conf.MaxAppendEntries = commitTimeout, 512
	conf.Logger = hclog.NewNullLogger()
	if o.prepare != nil {
		o.prepare(p, conf)
	}
	var machine raft.FSM = p.state
	if o.machine != nil {
		machine = o.machine(p.state)
	}
	p.Raft, err = raft.NewRaft(conf, machine, p.logs, p.logs, p.snapshots, p.transport)
	return err
}

// connect makes a server's transport.
func (p *peer) connect(listener net.Listener, o options) {
	if o.bare > 0 {
		p.transport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: plain{listener, p.host.Dial}, MaxPool: 3, MaxRPCsInFlight: 1, Timeout: o.bare,
			Logger: hclog.NewNullLogger(),
		})
		return
	}
	p.layer = raftnet.New(raftnet.Config{
		ClusterID: "c", Node: p.node, Advertise: string(p.address()), Listener: listener, Dial: p.host.Dial,
	})
	if o.transport != nil {
		p.transport = o.transport(p.layer)
	} else {
		p.transport = raftnet.NewTransport(p.layer, transportTimeout)
	}
}

func (p *peer) stop() error {
	down := p.Shutdown().Error()
	p.transport.CloseStreams()
	err := errors.Join(down, p.transport.Close())
	if p.layer != nil {
		err = errors.Join(err, p.layer.Close())
	}
	return err
}

func (c *cluster) stop() {
	c.t.Helper()
	for _, p := range c.peers {
		if err := p.stop(); err != nil {
			c.t.Errorf("stop of %s: %v", p.name, err)
		}
		if p.layer == nil {
			c.Kill(p.name) // no other part closes what a bare transport has accepted
		}
	}
	if n := c.Conns(); n != 0 {
		c.t.Errorf("%d connection ends are open after the end", n)
	}
}

// leader waits for a leader that is not one of but.
func (c *cluster) leader(but ...*peer) *peer {
	c.t.Helper()
	var leads *peer
	c.eventually("a leader", time.Minute, func() bool {
		for _, p := range c.peers {
			if p.State() == raft.Leader && (len(but) == 0 || p != but[0]) {
				leads = p
				return true
			}
		}
		return false
	})
	return leads
}

// others returns every server except p.
func (c *cluster) others(p *peer) (others []*peer) {
	for _, one := range c.peers {
		if one != p {
			others = append(others, one)
		}
	}
	return others
}

// cut cuts two servers off from each other; heal undoes it.
func (c *cluster) cut(a, b *peer)  { c.Cut(a.name, b.name); c.Cut(b.name, a.name) }
func (c *cluster) heal(a, b *peer) { c.Heal(a.name, b.name); c.Heal(b.name, a.name) }

// eventually waits until ok reports true, and returns how long that took. After the bound it ends the test.
func (c *cluster) eventually(what string, within time.Duration, ok func() bool) time.Duration {
	c.t.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > within {
			c.t.Fatalf("%s: not within %v", what, within)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(begun)
}

// payload returns the payload of an entry that opens a session with request id n.
func payload(t *testing.T, n uint64) []byte {
	t.Helper()
	data, err := entry.Encode([]session.Command{open(n)})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func open(n uint64) session.OpenSession {
	return session.OpenSession{
		Node: 1, Spec: session.Spec{Timeout: 4 * time.Second},
		RequestID: session.RequestID{1, byte(n >> 16), byte(n >> 8), byte(n)},
	}
}

// logs is a log store in memory whose writes a test can slow down and fail. Safe for concurrent use.
type logs struct {
	*raft.InmemStore
	mu sync.Mutex
	// write, when set, is called before each write of entries, which fails with its error. Guarded by mu.
	write func([]*raft.Log) error
	// set, when not nil, is the error of each write of Raft's own state. Guarded by mu.
	set error
	// dead says that the server has crashed: nothing is written any more. Guarded by mu.
	dead bool
	// lost are the entries whose write a crash has cut short. Guarded by mu.
	lost []raft.Log
}

// crash loses every write that has not ended, and all later ones, until revive. The goroutines that write end.
func (l *logs) crash()  { l.setDead(true) }
func (l *logs) revive() { l.setDead(false) }

func (l *logs) setDead(dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = dead
}

// alive ends the goroutine of a server that has crashed. Called with mu held, which the goroutine's end releases.
func (l *logs) alive() {
	if l.dead {
		runtime.Goexit()
	}
}

func (l *logs) onWrite(write func([]*raft.Log) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write = write
}

func (l *logs) failSet(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set = err
}

func (l *logs) SetUint64(key []byte, v uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive()
	if l.set != nil {
		return l.set
	}
	return l.InmemStore.SetUint64(key, v)
}

func (l *logs) Set(key, value []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive()
	return l.InmemStore.Set(key, value)
}

func (l *logs) DeleteRange(first, last uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive()
	return l.InmemStore.DeleteRange(first, last)
}

func (l *logs) StoreLog(one *raft.Log) error { return l.StoreLogs([]*raft.Log{one}) }

func (l *logs) StoreLogs(all []*raft.Log) error {
	l.mu.Lock()
	write := l.write
	l.mu.Unlock()
	if write != nil {
		if err := write(all); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		for _, one := range all {
			l.lost = append(l.lost, *one)
		}
	}
	l.alive()
	return l.InmemStore.StoreLogs(all)
}

// snapshots is a snapshot store in memory whose writes a test can slow down.
type snapshots struct {
	*raft.InmemSnapshotStore
	// write, when set, is called before each write of a snapshot. Set before the server starts.
	write func()
	// size, when set, is the number of zeros in each snapshot, which take no memory. Set before the server starts.
	size int64
	// whole keeps the newest complete snapshot, as a store of files does. The library's store in memory keeps the last
	// that was begun. Set before the server starts.
	whole bool

	mu sync.Mutex
	// newest and content are the newest complete snapshot. guarded by mu
	newest  *raft.SnapshotMeta
	content []byte
}

// List implements raft.SnapshotStore.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	if !s.whole {
		return s.InmemSnapshotStore.List()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		return nil, nil
	}
	return []*raft.SnapshotMeta{s.newest}, nil
}

// wholeSink is a snapshot that counts once it is complete.
type wholeSink struct {
	bytes.Buffer
	store    *snapshots
	meta     raft.SnapshotMeta
	canceled bool
}

func (s *wholeSink) ID() string { return s.meta.ID }

func (s *wholeSink) Cancel() error {
	s.canceled = true
	return nil
}

func (s *wholeSink) Close() error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if !s.canceled && (s.store.newest == nil || s.store.newest.Index < s.meta.Index) {
		s.meta.Size = int64(s.Len())
		s.store.newest, s.store.content = &s.meta, s.Bytes()
	}
	return nil
}

// Open implements raft.SnapshotStore.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if s.whole {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.newest == nil || s.newest.ID != id {
			return nil, nil, fmt.Errorf("no snapshot %s", id)
		}
		return s.newest, io.NopCloser(bytes.NewReader(s.content)), nil
	}
	meta, from, err := s.InmemSnapshotStore.Open(id)
	if err != nil || s.size == 0 {
		return meta, from, err
	}
	sized := *meta
	sized.Size = s.size
	return &sized, io.NopCloser(io.LimitReader(endless{}, s.size)), from.Close()
}

// endless reads zeros.
type endless struct{}

func (endless) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// Create implements raft.SnapshotStore.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	if s.whole {
		return &wholeSink{store: s, meta: raft.SnapshotMeta{
			Version: version, ID: fmt.Sprintf("%d-%d", term, index), Index: index, Term: term, Configuration: configuration,
			ConfigurationIndex: configurationIndex,
		}}, nil
	}
	sink, err := s.InmemSnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	switch {
	case err != nil:
		return sink, err
	case s.size > 0:
		return &slowSink{sink, nil}, nil
	case s.write != nil:
		return &slowSink{sink, s.write}, nil
	}
	return sink, nil
}

// slowSink calls write before each write. Without write it discards what is written.
type slowSink struct {
	raft.SnapshotSink
	write func()
}

func (s *slowSink) Write(b []byte) (int, error) {
	if s.write == nil {
		return len(b), nil
	}
	s.write()
	return s.SnapshotSink.Write(b)
}

// plain is Raft's own stream layer, which raftnet replaces.
type plain struct {
	net.Listener
	dial func(context.Context, string) (net.Conn, error)
}

func (l plain) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return l.dial(ctx, string(address))
}
