package writes_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	client "holdfast/client/internal/writes"
	"holdfast/learner/writes"
	"holdfast/session"
	"holdfast/tree"
)

func (w *world) breaks(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// The steps of clients.

func (w *world) push(p *process) {
	w.operations++
	one, err := p.queue.Push(w.operations, 8)
	if err != nil {
		return
	}
	p.writes[one] = w.operations
}

// hear takes what callers are told, and holds it against what has happened (I9).
func (w *world) hear(p *process, all []client.Told) {
	for _, one := range all {
		id, number := p.writes[one.Write], one.Write.Number()
		p.fate[id] = append(p.fate[id], one)
		w.seen[one.Fate.String()]++
		effects := len(w.effects[id])
		switch {
		case effects > 1:
			w.breaks("I9: operation %d took effect %d times", id, effects)
		case one.Fate == client.Done && one.Result != id:
			w.breaks("I9: operation %d gets the result of %v", id, one.Result)
		case (one.Fate == client.Done || one.Fate == client.TookEffect) && effects != 1:
			w.breaks("I9: operation %d is %v, and took effect %d times", id, one.Fate, effects)
		case one.Fate == client.Never && effects != 0:
			w.breaks("I9: operation %d is told never, and took effect", id)
		case errors.Is(one.Err, session.ErrOutcomeUnknown):
			w.breaks("I9: a node tells that write %d is unknown, and it is above the floor", number)
		case one.Fate == client.Unknown && !w.shared[p.session] && one.Err == nil && !w.gave(p, id):
			w.breaks("I9: operation %d is unknown, and nobody else has had the session", id)
		}
		if one.Late {
			w.seen["late"]++
		}
		if number > 0 && (one.Late || !w.gave(p, id)) {
			if number <= p.last {
				w.breaks("write %d is told after write %d", number, p.last)
			}
			p.last = number
		}
	}
}

// gave reports whether the caller of an operation gave up.
func (*world) gave(p *process, id uint64) bool { return len(p.fate[id]) > 0 && p.fate[id][0].Fate == 0 }

func (w *world) giveUp(p *process) {
	for _, one := range p.sorted() {
		id := p.writes[one]
		if len(p.fate[id]) > 0 || !w.one(4) {
			continue
		}
		switch all := p.queue.GiveUp(one); {
		case len(all) == 0:
		case all[0].Fate == client.Never:
			w.hear(p, all)
		default:
			p.fate[id] = []client.Told{{}} // gave up
			w.seen["gave up"]++
		}
		return
	}
}

// sorted returns the writes in the order of their operations.
func (p *process) sorted() []*client.Write {
	var most uint64
	by := map[uint64]*client.Write{}
	for one, id := range p.writes {
		by[id], most = one, max(most, id)
	}
	var all []*client.Write
	for id := uint64(1); id <= most; id++ {
		if one := by[id]; one != nil {
			all = append(all, one)
		}
	}
	return all
}

func (w *world) sends(p *process) {
	if p.conn == nil {
		return
	}
	if w.one(10) {
		p.conn.acked = p.queue.Acked()
	}
	for n := 1 + w.random.IntN(4); n > 0; n-- {
		send, ok := p.queue.Next(w.now)
		if !ok {
			return
		}
		p.conn.up = append(p.conn.up, send)
	}
}

func (w *world) reads(p *process) {
	if p.conn == nil || len(p.conn.down) == 0 {
		return
	}
	one := p.conn.down[0]
	p.conn.down = p.conn.down[1:]
	if one.refused != nil {
		if err := p.queue.Refused(one.number, one.refused, w.now); err != nil {
			w.seen["resume asked for"]++
			w.disconnect(p)
		}
		return
	}
	var a client.Answer
	switch {
	case one.outcome.Err != nil:
		a.Err = one.outcome.Err
	case one.outcome.Result[0] == 1:
		a.Void = true
	default:
		a.Result = binary.BigEndian.Uint64(one.outcome.Result[1:])
	}
	w.hear(p, p.queue.Answered(one.number, a))
}

func (w *world) disconnect(p *process) {
	if p.conn == nil {
		return
	}
	w.nodes[p.conn.node].table.Disconnected(p.session, p.conn.attachment)
	p.conn = nil
	p.queue.Disconnected()
}

// move moves a session to a process that is not connected.
func (w *world) move(p *process) {
	if p.conn == nil && w.head.sessions[p.session].left == nil {
		w.append(entry{kind: move, session: p.session, instance: p.instance})
	}
}

// resume tells a process that the session was moved to it, at any node that has applied the move.
func (w *world) resume(p *process) {
	if p.conn != nil {
		return
	}
	if left := w.head.sessions[p.session].left; left != nil {
		w.hear(p, p.queue.Ended(left, p.instance))
		return
	}
	at := w.random.IntN(nodes)
	for w.nodes[at].state.applied < len(w.log) {
		w.applies(at)
	}
	state, _ := w.head.Writer(uint64(p.session))
	told, err := p.queue.Resumed(state.Applied, state.Floor)
	if err != nil {
		w.breaks("resume: %v", err)
	}
	w.hear(p, told)
	p.conn = &connection{node: at, attachment: w.head.sessions[p.session].attachment}
	w.seen["resume"]++
}

// The steps of nodes.

// at returns the process that a node serves under an attachment, nil if there is none.
func (w *world) at(n int, id session.ID, attachment uint64) *process {
	for _, p := range w.all {
		if p.session == id && p.conn != nil && p.conn.node == n && p.conn.attachment == attachment {
			return p
		}
	}
	return nil
}

// takes makes a process's node read what the process has sent.
func (w *world) takes(p *process) {
	if p.conn == nil {
		return
	}
	n := w.nodes[p.conn.node]
	if p.conn.acked > 0 {
		n.table.Acknowledged(p.session, p.conn.attachment, p.conn.acked, n.state, w.now)
		p.conn.acked = 0
	}
	if len(p.conn.up) == 0 {
		return
	}
	send := p.conn.up[0]
	p.conn.up = p.conn.up[1:]
	one := writes.Write{
		Session: p.session, Attachment: p.conn.attachment, Number: send.Number, Acked: send.Acked, Void: send.Void, Weight: 1,
	}
	if !send.Void {
		id, _ := send.Body.(uint64)
		one.Body = binary.BigEndian.AppendUint64(nil, id)
	}
	var err error
	if !w.calm && w.one(40) {
		err = &session.FieldError{Field: "operation", Limit: "another"}
		if send.Void {
			err = nil
		}
	}
	if err == nil {
		err = n.table.Accept(one, n.state, w.now)
	} else {
		n.table.Refuse(one, n.state, w.now)
	}
	if err != nil {
		w.seen["refused at the node"]++
		p.conn.down = append(p.conn.down, told{number: send.Number, refused: err})
	}
}

func (w *world) answers(n int, all []writes.Outcome) {
	for _, one := range all {
		p := w.at(n, one.Session, one.Attachment)
		if p == nil || errors.Is(one.Err, session.ErrMoved) || errors.Is(one.Err, session.ErrExpired) {
			continue
		}
		if is[*tree.GapError](one.Err) {
			w.breaks("a client sees a GAP of the state")
		}
		p.conn.down = append(p.conn.down, told{number: one.Number, outcome: one})
	}
}

// applies makes a node apply its next entry.
func (w *world) applies(at int) {
	n := w.nodes[at]
	if n.state.applied == len(w.log) {
		return
	}
	e := w.log[n.state.applied]
	wrote := n.state.apply(e)
	if e.kind == move || e.kind == end {
		w.changed(at, e.session)
	}
	w.answers(at, n.table.Applied(wrote, w.now))
}

// changed ends the connections of former attachments of a session at a node, as its state now shows them.
func (w *world) changed(at int, id session.ID) {
	n := w.nodes[at]
	var moved *session.MovedError
	var expired *session.ExpiredError
	for _, p := range w.all {
		if p.session != id || p.conn == nil || p.conn.node != at {
			continue
		}
		err := n.state.ended(id, p.conn.attachment)
		switch {
		case errors.As(err, &moved):
			n.table.Moved(id, moved)
			w.seen["moved"]++
		case errors.As(err, &expired):
			n.table.Gone(id, expired)
		default:
			continue
		}
		for arrives := w.one(2); arrives && p.conn != nil && len(p.conn.down) > 0; {
			w.reads(p) // what was under way when the connection ended
		}
		w.disconnect(p)
	}
}

// skips makes a node restore the newest state (W4).
func (w *world) skips(at int) {
	n := w.nodes[at]
	if n.state.applied == len(w.log) {
		return
	}
	for n.state.applied < len(w.log) {
		n.state.apply(w.log[n.state.applied])
	}
	w.seen["skip"]++
	w.answers(at, n.table.Skipped(n.state, n.state.ended, w.now))
	for s := range sessions {
		w.changed(at, session.ID(s+1))
	}
}

func (w *world) forwards(n *node) {
	if n.out == nil {
		n.out = &stream{epoch: w.epoch, newest: map[session.ID]uint64{}}
		n.table.StreamBegan(w.now)
		w.seen["stream"]++
	}
	for {
		due := n.table.Due(n.state, w.now)
		if len(due) > 0 {
			n.out.up = append(n.out.up, session.ForwardMessage{Acknowledged: due})
			w.seen["acknowledge"]++
		}
		all := n.table.Next(w.now)
		if len(all) == 0 {
			return
		}
		for _, one := range all {
			n.out.up = append(n.out.up, session.ForwardMessage{Writes: []session.ForwardedWrite{one}})
		}
	}
}

func (w *world) refusals(n *node) {
	if n.out != nil && len(n.out.down) > 0 {
		all := n.out.down[:1+w.random.IntN(len(n.out.down))]
		n.out.down = n.out.down[len(all):]
		n.table.Refused(all, w.now)
	}
}

func (w *world) loses(n *node) {
	if n.out != nil {
		n.out = nil
		n.table.StreamEnded()
		w.seen["lost stream"]++
	}
}

// The steps of leaders.

// leads makes the leader of a node's stream read a message, a former leader too.
func (w *world) leads(n *node) {
	if n.out == nil || len(n.out.up) == 0 {
		return
	}
	m := n.out.up[0]
	n.out.up = n.out.up[1:]
	e := entry{kind: acknowledge, acks: m.Acknowledged}
	for _, one := range m.Writes {
		if why, refused := w.refuses(n.out, one); refused {
			n.out.down = append(n.out.down, session.WriteRefusal{
				Session: one.Session, Number: one.Number, Why: why, RetryAfter: time.Duration(w.random.IntN(3)) * time.Second,
			})
			w.seen["refused by the leader"]++
			return
		}
		e = entry{kind: write, command: one.Command}
	}
	if n.out.epoch == w.epoch {
		w.taken = append(w.taken, e)
		return
	}
	w.deposed = append(w.deposed, e)
}

// refuses decides whether the leader takes a write. Once it has refused one it refuses later ones of the session, until
// a number comes that is not new: then the node has gone back. A lenient leader leaves the later ones to the state.
func (w *world) refuses(s *stream, one session.ForwardedWrite) (session.WriteRefusalReason, bool) {
	if newest := s.newest[one.Session]; newest > 0 {
		if one.Number > newest {
			s.newest[one.Session] = one.Number
			return session.WriteGap, true
		}
		delete(s.newest, one.Session)
	}
	if w.calm || !w.one(w.patient) {
		return 0, false
	}
	if !w.lenient {
		s.newest[one.Session] = one.Number
	}
	return session.WriteBusy, true
}

func (w *world) commits() {
	if len(w.taken) > 0 {
		w.append(w.taken[0])
		w.taken = w.taken[1:]
	}
}

// former commits or loses what a former leader had taken.
func (w *world) former() {
	switch {
	case len(w.deposed) == 0:
	case w.one(3):
		w.deposed = nil
		w.seen["lost tail"]++
	default:
		w.append(w.deposed[0])
		w.deposed = w.deposed[1:]
		w.seen["late commit"]++
	}
}

// elect makes another node lead, or the same one lead again. Streams to the former leader end when it notices.
func (w *world) elect() {
	w.epoch++
	w.deposed = append(w.deposed, w.taken...)
	w.taken = nil
	w.seen["election"]++
}

// notices makes former leaders end their streams.
func (w *world) notices() {
	for _, n := range w.nodes {
		if n.out != nil && n.out.epoch != w.epoch {
			w.loses(n)
		}
	}
}
