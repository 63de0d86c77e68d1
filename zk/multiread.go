package zk

import (
	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// maxMultiRead is how many bytes the records in the answer to one multiRead have. ZooKeeper has no bound: there, and
// without one here, a request of 100 KB asks for 10 GB, as each of its 10,000 elements may name an entry of 1 MB, and a
// frame of 4 GiB says a wrong length.
const maxMultiRead = 4 << 20

const (
	// lengthBytes is what stands before a text or bytes.
	lengthBytes = 4
	// elementBytes is what an element has besides data or names: its header, a length and a stat.
	elementBytes = 9 + lengthBytes + 68
)

// multiRead is a request for several entries. They are read one by one, so what was read waits here until the last one
// is.
type multiRead struct {
	conn *conn
	ops  []jute.Request
	// at is the element that is being read; list are its names, if it asks for them.
	at   int
	list listing
	// body has the elements before it, as they are answered.
	body jute.Encoder
}

// prepareMultiRead reads several entries, each by itself: what one is refused costs the others nothing (N-33). From the
// first one on that would make the answer too large, all are refused with -127, so that the client can ask again for
// those.
func prepareMultiRead(c *conn, r *request) {
	b := r.Body.(jute.MultiRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	if !b.Of(jute.MultiRead) {
		c.refuse(r, jute.MarshallingError)
		return
	}
	if len(b.Ops) == 0 {
		c.inTurn(r, func(zxid int64) *jute.Encoder {
			e := jute.Reply(r.Xid, zxid, jute.OK)
			e.MultiEnd()
			return e
		})
		return
	}
	r.order = lastOf
	m := &multiRead{conn: c, ops: b.Ops}
	m.list.query = m.query()
	r.begin = func(r *request, key uint64) error { return c.ask(r, key, m.list.query) }
	r.answer = m.answer
}

// query returns the read of the element that is to be read.
func (m *multiRead) query() tree.Query {
	one := &m.ops[m.at]
	b := one.Body.(jute.WatchRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	// Of the entry that is made at the read there is nothing to be read, but its turn has to come.
	if b.Path == configPath {
		return tree.Query{Kind: tree.GetStat, Path: tree.Root, Unguarded: true}
	}
	if one.Op == jute.GetData {
		return tree.Query{Kind: tree.GetEntry, Path: b.Path}
	}
	return tree.Query{Kind: tree.ListChildren, Path: b.Path}
}

// answer takes the answer to a read, and asks for the next one or makes the reply. Called with the line's mu held.
func (m *multiRead) answer(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
	code, err := codeOfAnswer(m.conn, a)
	if err != nil {
		return nil, false, err
	}
	if more := m.take(code, a.Read); !more {
		if m.at++; m.at < len(m.ops) {
			m.list = listing{query: m.query()}
		}
	}
	if m.at < len(m.ops) {
		m.conn.line.count(r, len(m.body.Bytes())+m.list.bytes)
		return nil, true, m.conn.line.hand(r, r.begin)
	}
	m.body.MultiEnd()
	e := jute.Reply(r.Xid, int64(a.Stamp), jute.OK) //nolint:gosec // stamps are positive
	e.Append(m.body.Bytes())
	return e, false, nil
}

// take appends an element. It reports whether that needs one more page.
func (m *multiRead) take(code jute.Code, a *tree.Answer) (more bool) {
	if code != jute.OK {
		m.body.MultiError(code)
		return false
	}
	op, config := m.ops[m.at].Op, targetOf(m.ops[m.at].Body) == configPath
	if op == jute.GetChildren && !config {
		more = m.list.take(a)
	}
	switch {
	case !m.fits(len(a.Data) + m.list.bytes):
		m.refuseRest()
		return false
	case more:
		return true
	}
	m.body.MultiHeader(jute.MultiHeader{Op: op})
	switch {
	case config:
		m.conn.server.appendConfig(&m.body, op)
	case op == jute.GetData:
		m.body.Buffer(a.Data)
		m.body.Stat(statOf(a.Stat))
	default:
		m.body.Strings(m.list.names)
	}
	return false
}

// fits reports whether an element of so many bytes may be in the answer. While the node has little room for what waits,
// only the first one may: the rest would wait here for its turn.
func (m *multiRead) fits(bytes int) bool {
	return len(m.body.Bytes())+elementBytes+bytes <= maxMultiRead && (m.at == 0 || !m.conn.tree.Hold(0))
}

// refuseRest refuses the element that was read and all behind it.
func (m *multiRead) refuseRest() {
	for range m.ops[m.at:] {
		m.body.MultiError(jute.Throttled)
	}
	m.at = len(m.ops) - 1
}
