package watches_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"holdfast/client/internal/core"
	"holdfast/learner/lane"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/watch"
)

const nodes = 3

type noDigest struct{}

func (noDigest) Add([]byte)    {}
func (noDigest) Remove([]byte) {}

// noWrites is a queue of writes that nobody uses: all changes come from the world.
type noWrites struct{}

func (noWrites) Accept(*lane.Write) error           { return session.ErrNoLeader }
func (noWrites) Refused(*lane.Write)                {}
func (noWrites) Repeated(*lane.Write)               {}
func (noWrites) Skipped(session.ID, uint64, uint64) {}

// entry is one of the log: the tree behind it, and what it changed.
type entry struct {
	published lane.Published
	changes   []tree.Change
}

// world is a cluster with clients that watch. Everything in it happens one by one, by the throw of dice.
type world struct {
	random  *rand.Rand
	now     time.Time
	tree    *store.Tree
	log     []entry
	changes []tree.Change
	nodes   [nodes]*node
	clients []*client
	rings   watch.RingLimits
	limits  lane.Limits
	// rarely is how many chances of a fault are let pass.
	rarely int
	broken []string
	// seen counts what has happened.
	seen map[string]int
}

// node is one node with one lane.
type node struct {
	*world
	name  string
	hub   *lane.Hub
	lane  *lane.Lane
	conns []*conn
	// applied is the number of entries that the node has applied. 0 is a process that has just begun.
	applied int
	// down says that the node takes no connections, leaderless that it hears of no leader.
	down, leaderless bool
	jobs             []lane.Job
}

// conn is a Connect stream: the client's end, the node's end, and what is on the way.
type conn struct {
	of     *client
	client *core.Conn
	node   *node
	// end is the node's; nil before the node knows of the stream, and after it knows of the end.
	end  *lane.Conn
	up   []*holdfastv1.ClientMessage
	down []*holdfastv1.ServerMessage
	// held did not fit into the message before it.
	held *lane.Sent
	// told is the newest stamp up to which everything was sent.
	told tree.Stamp
	// open says that the client knows that the stream is up. gone says that it has hung up, broken that it is to be told
	// that the stream has ended.
	open, gone, broken bool
}

func newWorld(random *rand.Rand) *world {
	w := &world{
		random: random, now: time.Unix(1e9, 0), seen: map[string]int{}, rings: watch.DefaultRingLimits(),
		limits: lane.DefaultLimits(), rarely: []int{1, 2, 4, 12}[random.IntN(4)],
		tree: store.New(noDigest{}, tree.DefaultLimits(), store.At{Stamp: tree.StampAt(1, 1)}),
	}
	if w.one(2) {
		w.rings = watch.RingLimits{Items: []int{6, 30, 200}[random.IntN(3)], Bytes: 1 << 20}
		w.limits.Feed.Events = []int{2, 8, 40}[random.IntN(3)]
	}
	w.log = []entry{{published: lane.Published{Index: 1, Root: w.tree.Freeze()}}}
	for i := range w.nodes {
		w.nodes[i] = &node{world: w, name: fmt.Sprintf("n%d:1", i+1)}
		w.nodes[i].start(0)
	}
	for i := range 2 {
		w.clients = append(w.clients, newClient(w, uint64(i)))
	}
	return w
}

// one reports true one time in n.
func (w *world) one(n int) bool { return w.random.IntN(n) == 0 }

func (w *world) breaks(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

var paths = []string{"/s", "/s/1", "/s/2", "/s/3", "/s/4", "/s/5", "/s/6", "/t", "/t/1", "/t/1/a"}

// append commits an entry: transactions, each at a position of its own, and ends of sessions.
func (w *world) append() {
	index := uint64(len(w.log) + 1)
	var all []tree.Change
	for position := range 1 + w.random.IntN(4) {
		at := store.At{
			Stamp: tree.StampAt(index, position+1), Session: uint64(1 + w.random.IntN(3)),
			Principals: []tree.Principal{{Scheme: tree.Super}},
		}
		if w.one(6) {
			_, more := w.tree.CloseSession(at, at.Session, nil)
			all = append(all, more...)
			continue
		}
		var x tree.Transaction
		for range 1 + w.random.IntN(2) {
			x.Then = append(x.Then, w.op())
		}
		_, more := w.tree.Do(at, x)
		all = append(all, more...)
	}
	w.log = append(w.log, entry{lane.Published{Index: index, Root: w.tree.Freeze()}, all})
	w.changes = append(w.changes, all...)
}

func (w *world) op() tree.Op {
	path := paths[w.random.IntN(len(paths))]
	switch w.random.IntN(5) {
	case 0:
		return tree.Set{Path: path, Version: tree.Any}
	case 1:
		return tree.DeleteTree{Path: path}
	default:
		kind := tree.Persistent
		if len(path) > len("/s/") {
			kind = []tree.Kind{tree.Persistent, tree.Ephemeral}[w.random.IntN(2)]
		}
		return tree.Create{Path: path, Parents: true, Kind: kind}
	}
}

// start begins a process of a node that has restored the first so many entries. Its connections are gone.
func (n *node) start(restored int) {
	for _, c := range n.conns {
		c.broken = true
	}
	n.conns, n.jobs, n.applied = nil, nil, restored
	n.hub = lane.NewHub(lane.HubLimits{Changes: n.rings, Sessions: n.rings, Results: n.rings}, lane.Published{})
	if restored > 0 {
		n.hub.Restored(n.log[restored-1].published)
	}
	n.lane = lane.New(lane.Shared{
		Hub: n.hub, Writes: noWrites{}, Watches: watch.NewBudget(1000), Queued: lane.NewQueued(1 << 20),
		Unsent: lane.NewUnsent(1 << 30),
	}, n.limits, func() {})
}

// apply applies the next entry.
func (n *node) apply() {
	if n.applied < len(n.log) {
		e := n.log[n.applied]
		n.applied++
		n.hub.Applied(e.published, e.changes, nil)
	}
}

// restore installs a snapshot of the newest entry.
func (n *node) restore() {
	if n.applied < len(n.log) {
		n.applied = len(n.log)
		n.hub.Restored(n.log[n.applied-1].published)
		n.seen["restore"]++
	}
}

func (n *node) pass() {
	n.lane.Pass()
	n.work()
}

// tick is what a node does each moment.
func (n *node) tick() {
	n.lane.SetStanding(n.standing())
	n.lane.Tick(n.now)
	n.work()
}

// standing is why the node refuses what only a node may do that hears of a leader.
func (n *node) standing() error {
	if n.leaderless {
		return session.ErrNoLeader
	}
	return nil
}

// work fills the answers of reads.
func (n *node) work() {
	for _, job := range n.lane.Work() {
		job.Do()
	}
}

// take makes a node read a message of a client.
func (c *conn) take() {
	if c.end == nil || len(c.up) == 0 {
		return
	}
	m := c.up[0]
	c.up = c.up[1:]
	n := c.node
	n.lane.SetStanding(n.standing())
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Touch:
		c.say(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: &holdfastv1.Touched{
			Seq: m.Touch.GetSeq(), Told: uint64(c.told),
		}}})
	case *holdfastv1.ClientMessage_AddWatches:
		c.add(m.AddWatches)
	case *holdfastv1.ClientMessage_RemoveWatches:
		specs, err := wire.RemovalFrom(m.RemoveWatches)
		if err == nil {
			err = c.end.RemoveWatches(m.RemoveWatches.GetSeq()<<8|removes, specs)
		}
		c.refuse(m.RemoveWatches.GetSeq(), err)
	case *holdfastv1.ClientMessage_Read:
		q, err := wire.QueryFrom(m.Read)
		if err == nil {
			err = n.treeless()
		}
		if err == nil {
			_, err = n.lane.Read(c.end, lane.Read{
				Key: m.Read.GetSeq()<<8 | reads, Query: q, Bytes: 10, Until: n.now.Add(2 * time.Second),
			})
		}
		c.refuse(m.Read.GetSeq(), err)
	}
	n.work()
}

// The kinds of requests, in the keys of their answers.
const (
	adds uint64 = iota + 1
	removes
	reads
)

func (c *conn) add(m *holdfastv1.AddWatches) {
	a, err := wire.AdditionFrom(m)
	if err == nil {
		err = c.node.treeless()
	}
	if err == nil {
		if a.Since > 0 {
			c.of.seen["coming back"]++
		}
		err = c.node.lane.AddWatches(c.end, lane.Addition{
			Key: m.GetSeq()<<8 | adds, Addition: a, Bytes: 10, Until: c.node.now.Add(2 * time.Second),
		})
	}
	c.refuse(m.GetSeq(), err)
}

// treeless refuses a request at a node that has no tree yet, as package namespace does. A leader has told it that the
// cluster has one.
func (n *node) treeless() error {
	switch {
	case n.hub.Shown().Root != nil:
		return nil
	case n.leaderless:
		return session.ErrNoLeader
	default:
		return session.ErrLagging
	}
}

// refuse tells a client that a request was not taken, unless err is nil.
func (c *conn) refuse(seq uint64, err error) {
	if err != nil {
		c.say(&holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Failed{Failed: wire.FailedProto(seq, err)},
		})
	}
}

// say sends a message with the node's state.
func (c *conn) say(m *holdfastv1.ServerMessage) {
	now := c.node.hub.Shown()
	state := session.NodeState{Node: session.Node(c.node.name[1] - '0'), Mode: session.ModeReadWrite, Index: now.Index}
	if c.node.leaderless {
		state.Mode = session.ModeNoLeader
	}
	if now.Root != nil || !c.node.leaderless {
		state.FeatureLevel = 1
	}
	m.State = wire.StateProto(state)
	c.down = append(c.down, m)
}

// send makes the writer of a connection send some of what the lane has for it, in one message or several.
func (c *conn) send(most int) {
	var all []*holdfastv1.ServerMessage
	told := c.told
	for ; most > 0; most-- {
		s, ok := c.next()
		if !ok {
			break
		}
		told = max(told, s.Told)
		m := c.message(&s)
		if n := len(all); n > 0 && m.GetEvents() != nil && all[n-1].GetEvents() != nil {
			joined := all[n-1].GetEvents()
			joined.Events = append(joined.Events, m.GetEvents().GetEvents()...)
			continue
		}
		all = append(all, m)
	}
	if len(all) > 1 {
		all = []*holdfastv1.ServerMessage{{Message: &holdfastv1.ServerMessage_Answers{
			Answers: &holdfastv1.Answers{Messages: all},
		}}}
	}
	for _, m := range all {
		c.say(m)
	}
	c.told = told
}

func (c *conn) next() (lane.Sent, bool) {
	if held := c.held; held != nil {
		c.held = nil
		return *held, true
	}
	if c.end == nil {
		return lane.Sent{}, false
	}
	s, ok := c.end.Next(c.node.now)
	if ok && c.of.one(20) {
		c.held = &s
		return lane.Sent{}, false
	}
	return s, ok
}

func (c *conn) message(s *lane.Sent) *holdfastv1.ServerMessage {
	a := s.Value.Answer
	switch {
	case s.Lost:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Lost{
			Lost: &holdfastv1.Lost{Stamp: uint64(s.Stamp)},
		}}
	case s.Quiet:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Told{
			Told: &holdfastv1.Told{Stamp: uint64(s.Told)},
		}}
	case a == nil:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Events{
			Events: wire.EventsProto([]tree.Event{s.Value.Event}),
		}}
	case a.Err != nil:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Failed{
			Failed: wire.FailedProto(a.Key>>8, a.Err),
		}}
	case a.Key&0xff == adds:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_WatchesAdded{
			WatchesAdded: &holdfastv1.WatchesAdded{Seq: a.Key >> 8, Stamp: uint64(a.Stamp)},
		}}
	case a.Key&0xff == removes:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_WatchesRemoved{
			WatchesRemoved: &holdfastv1.WatchesRemoved{Seq: a.Key >> 8, Removed: uint32(a.Removed)},
		}}
	default:
		found := a.Read
		found.Stamp = a.Stamp
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Read{
			Read: wire.TreeAnswerProto(a.Key>>8, found),
		}}
	}
}

// accept lets the node know of a stream.
func (c *conn) accept() {
	c.end = c.node.lane.Open([]tree.Principal{{Scheme: tree.Super}}, func() {})
}

// closed lets the node know that a stream has ended.
func (c *conn) closed() {
	if c.end != nil {
		c.node.lane.Close(c.end)
		c.end = nil
	}
}
