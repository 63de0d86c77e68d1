package writes_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	client "holdfast/client/internal/writes"
	"holdfast/learner/writes"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/writers"
)

const (
	sessions  = 2
	processes = 2 // of each session
	nodes     = 3
)

// kind is what an entry of the log is.
type kind uint8

const (
	write kind = iota
	move
	end
	acknowledge
)

type entry struct {
	kind     kind
	command  []byte     // of a write
	session  session.ID // of a move or an end
	instance uint64     // of a move
	acks     []session.Acknowledged
}

// encode is a write as the log of this world has it. A body is the number of an operation.
func encode(w writes.Write) []byte {
	b := make([]byte, 41)
	for i, field := range []uint64{uint64(w.Session), w.Attachment, w.Number, w.Acked} {
		binary.BigEndian.PutUint64(b[8*i:], field)
	}
	if w.Void {
		b[40] = 1
	}
	copy(b[32:40], w.Body)
	return b
}

func decode(b []byte) (w writes.Write) {
	field := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	return writes.Write{
		Session: session.ID(field(0)), Attachment: field(1), Number: field(2), Acked: field(3), Void: b[40] == 1,
		Body: b[32:40],
	}
}

type bag struct{}

func (bag) Add([]byte)    {}
func (bag) Remove([]byte) {}

// held is what the state says of a session beside its writer.
type held struct {
	attachment, instance uint64
	left                 *session.Left // once it has ended
}

// replica is the state as far as one node has applied the log.
type replica struct {
	*writers.Table
	sessions map[session.ID]held
	applied  int
}

func newReplica(limits writers.Limits) *replica {
	r := &replica{Table: writers.New(bag{}, limits), sessions: map[session.ID]held{}}
	for s := range sessions {
		r.sessions[session.ID(s+1)] = held{}
	}
	return r
}

// ended says why an attachment can write no more.
func (r *replica) ended(id session.ID, attachment uint64) error {
	switch s := r.sessions[id]; {
	case s.left != nil:
		return &session.ExpiredError{ID: id, Certificate: &session.Certificate{Left: *s.left}}
	case s.attachment != attachment:
		return &session.MovedError{Attachment: s.attachment, Instance: s.instance}
	default:
		return nil
	}
}

// apply applies the next entry, by rules W3, X2 to X4 and X9. wrote is set for a write.
func (r *replica) apply(e entry) (wrote []writes.Outcome) {
	r.applied++
	s := r.sessions[e.session]
	switch e.kind {
	case write:
		return []writes.Outcome{r.decide(decode(e.command))}
	case move:
		if s.left != nil {
			return nil
		}
		if s.instance != e.instance && s.instance != 0 {
			r.Moved(uint64(e.session))
		}
		r.sessions[e.session] = held{attachment: uint64(r.applied), instance: e.instance}
	case end:
		if s.left == nil {
			last := r.End(uint64(e.session))
			s.left = &session.Left{Instance: s.instance, Applied: last.Applied, Floor: last.Floor}
			r.sessions[e.session] = s
		}
	case acknowledge:
		for _, one := range e.acks {
			r.Acknowledge(uint64(one.Session), one.UpTo)
		}
	}
	return nil
}

func (r *replica) decide(w writes.Write) writes.Outcome {
	one := writes.Outcome{
		Session: w.Session, Attachment: w.Attachment, Number: w.Number, At: tree.StampAt(uint64(r.applied), 1),
	}
	if one.Err = r.ended(w.Session, w.Attachment); one.Err != nil {
		return one
	}
	verdict, kept := r.Take(uint64(w.Session), w.Number, w.Acked)
	switch verdict {
	case writers.Apply:
		one.Result = append([]byte{0}, w.Body...)
		if w.Void {
			one.Result = []byte{1}
		}
		r.Keep(uint64(w.Session), w.Number, one.Result)
	case writers.Repeat:
		one.Result = kept
	case writers.Unknown:
		one.Err = session.ErrOutcomeUnknown
	case writers.Gap:
		now, _ := r.Writer(uint64(w.Session))
		one.Err = &tree.GapError{Expected: now.Applied + 1}
	case writers.Window:
		one.Err = &tree.WindowError{Limit: "small"}
	}
	return one
}

// stream is a node's Forward stream to a leader.
type stream struct {
	epoch int
	up    []session.ForwardMessage
	down  []session.WriteRefusal
	// newest is the highest number that the leader has seen of a session since it refused one; 0 while it refuses none.
	newest map[session.ID]uint64
}

// told is what a node says to a client.
type told struct {
	number  uint64
	outcome writes.Outcome
	refused error
}

// connection is a client process's connection to a node.
type connection struct {
	node       int
	attachment uint64
	up         []client.Send
	down       []told
	acked      uint64 // what the client's keep-alive says, 0 if none is on its way
}

type process struct {
	session  session.ID
	instance uint64
	queue    *client.Queue
	conn     *connection // nil while disconnected
	writes   map[*client.Write]uint64
	// fate is what was told of each operation. One that was given up has an empty one first.
	fate map[uint64][]client.Told
	last uint64 // the number told last
}

type node struct {
	table *writes.Table
	state *replica
	out   *stream
}

// world is a cluster with clients. Everything in it happens one by one, by the throw of dice.
type world struct {
	random *rand.Rand
	now    time.Time
	log    []entry
	head   *replica
	nodes  [nodes]*node
	all    []*process
	epoch  int
	// taken is what the present leader has taken, and deposed what former ones had: it may still be committed.
	taken, deposed []entry
	// calm says that there are no more faults. Before that, rarely is how many chances of one are let pass.
	calm   bool
	rarely int
	// keen is how many chances of one a process takes the session over from the other, patient how many writes a leader
	// takes for one that it refuses. A lenient leader takes later writes of a session after it has refused one.
	keen       int
	patient    int
	lenient    bool
	operations uint64
	// effects are the log's indexes at which an operation took effect, order the newest number that each session used.
	effects map[uint64][]int
	order   map[session.ID]uint64
	// shared says that another process has had the session.
	shared map[session.ID]bool
	broken []string
	// seen counts what has happened.
	seen map[string]int
}

func newWorld(random *rand.Rand) *world {
	w := &world{
		random: random, now: time.Unix(1e9, 0), effects: map[uint64][]int{},
		order: map[session.ID]uint64{}, shared: map[session.ID]bool{}, seen: map[string]int{},
	}
	w.rarely = []int{1, 2, 5, 12}[w.random.IntN(4)]
	w.keen, w.patient, w.lenient = 1+w.random.IntN(6), 2+w.random.IntN(10), w.one(2)
	kept := writers.DefaultLimits()
	if w.random.IntN(2) == 0 {
		kept.Results = 1 + w.random.IntN(6)
	}
	limits := writes.DefaultLimits()
	if w.random.IntN(2) == 0 {
		limits.Unanswered = 1 + w.random.IntN(5)
		limits.NodeBytes = 300 + w.random.IntN(600)
	}
	w.head = newReplica(kept)
	for i := range w.nodes {
		w.nodes[i] = &node{table: writes.New(limits, encode), state: newReplica(kept)}
	}
	for s := range sessions {
		for p := range processes {
			w.all = append(w.all, &process{
				session: session.ID(s + 1), instance: uint64(p + 1), queue: client.New(), writes: map[*client.Write]uint64{},
				fate: map[uint64][]client.Told{},
			})
		}
	}
	return w
}

// one reports true one time in n.
func (w *world) one(n int) bool { return w.random.IntN(n) == 0 }

// append commits an entry, and notes what it does.
func (w *world) append(e entry) {
	before := w.head.sessions[e.session]
	w.log = append(w.log, e)
	wrote := w.head.apply(e)
	if e.kind == move && before.instance != 0 && before.instance != e.instance {
		w.shared[e.session] = true
	}
	for _, one := range wrote {
		c := decode(e.command)
		switch {
		case one.Err != nil:
			w.saw(one.Err)
		case w.order[c.Session] < c.Number: // it took its number now
			if w.order[c.Session]+1 != c.Number {
				w.breaks("I10: write %d took effect after %d", c.Number, w.order[c.Session])
			}
			w.order[c.Session] = c.Number
			if !c.Void {
				id := binary.BigEndian.Uint64(c.Body)
				w.effects[id] = append(w.effects[id], len(w.log))
			}
		default:
			w.seen["repeat"]++
		}
	}
}

func (w *world) saw(err error) {
	switch {
	case is[*tree.GapError](err):
		w.seen["gap"]++
	case is[*tree.WindowError](err):
		w.seen["window"]++
	case errors.Is(err, session.ErrMoved):
		w.seen["fenced"]++
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
