package operations

import (
	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
	"holdfast/zk/queue"
)

// maxMultiRead bounds the bytes of the records in the reply to a multiRead. ZooKeeper has no bound: there, a request
// of 100 KB can ask for 10 GB, as each of its 10,000 elements may name an entry of 1 MB, and a frame of more than 4
// GiB has a wrong length.
const maxMultiRead = 4 << 20

// elementBytes is the size of an element without data or names: its header, a length and a stat.
const elementBytes = 9 + lengthBytes + 68

// multiRead is a request for several entries. They are read one by one, so the first records wait until the last entry
// is read.
type multiRead struct {
	handler *Handler
	request *queue.Request
	ops     []jute.Request
	// at is the present element; list has its names if the element is a list.
	at   int
	list list
	// body has the earlier elements of the reply.
	body jute.Encoder
}

// multiRead reads several entries. A refused element does not affect the others (N-33). From the first element on that
// would make the reply too large, all elements are refused with -127, so that the client can ask for them again.
func (h *Handler) multiRead(r *queue.Request) {
	b := r.Body.(jute.MultiRequest) //nolint:errcheck,forcetypeassert // the row's record
	for _, op := range b.Ops {
		if !h.table[op.Op].multiRead {
			h.refuse(r, jute.MarshallingError)
			return
		}
	}
	if len(b.Ops) == 0 {
		h.answerEmptyMulti(r)
		return
	}
	r.Order = queue.Barrier
	m := &multiRead{handler: h, request: r, ops: b.Ops}
	m.list.query = m.query()
	r.Send, r.Reply = m.send, m.reply
}

func (m *multiRead) send(key uint64) error { return m.handler.submit(m.request, key, m.list.query) }

// query returns the read of the current element.
func (m *multiRead) query() tree.Query {
	op := &m.ops[m.at]
	path := pathOf(op)
	// The node makes /zookeeper/config itself, so any read serves to wait for the turn.
	if path == configPath {
		return tree.Query{Kind: tree.GetStat, Path: tree.Root, SkipReadCheck: true}
	}
	if op.Op == jute.GetData {
		return tree.Query{Kind: tree.GetEntry, Path: path}
	}
	return tree.Query{Kind: tree.ListChildren, Path: path}
}

// pathOf returns the path of an element.
func pathOf(r *jute.Request) string {
	return r.Body.(interface{ Target() string }).Target() //nolint:errcheck,forcetypeassert // all reads have it
}

// reply processes the answer to a read, and returns the next read or the reply.
func (m *multiRead) reply(a *session.TreeAnswer) (*jute.Encoder, *queue.Step, error) {
	code, err := m.handler.readCode(a)
	if err != nil {
		return nil, nil, err
	}
	if more := m.add(code, a.Read); !more {
		if m.at++; m.at < len(m.ops) {
			m.list = list{query: m.query()}
		}
	}
	if m.at < len(m.ops) {
		return nil, &queue.Step{Send: m.send, Gathered: len(m.body.Bytes()) + m.list.bytes}, nil
	}
	m.body.MultiEnd()
	e := replyTo(m.request, a, jute.OK)
	e.Append(m.body.Bytes())
	return e, nil, nil
}

// add appends an element. It reports whether the element needs one more page.
func (m *multiRead) add(code jute.Code, a *tree.Answer) (more bool) {
	if code != jute.OK {
		m.body.MultiError(code)
		return false
	}
	op := &m.ops[m.at]
	v := entry{data: a.Data, stat: statOf(a.Stat)}
	switch config := pathOf(op) == configPath; {
	case config:
		v = m.handler.config()
	case op.Op == jute.GetChildren:
		more = m.list.add(a)
		v.names = m.list.names
	}
	switch {
	case !m.fits(len(a.Data) + m.list.bytes):
		m.refuseRest()
		return false
	case more:
		return true
	}
	m.body.MultiHeader(jute.MultiHeader{Op: op.Op})
	m.handler.table[op.Op].record(&m.body, &v)
	return false
}

// fits reports whether an element of this size may be in the reply. When half of the node's request memory is used,
// only the first element fits: the others would wait here.
func (m *multiRead) fits(bytes int) bool {
	return len(m.body.Bytes())+elementBytes+bytes <= maxMultiRead && (m.at == 0 || !m.handler.tree.Hold(0))
}

// refuseRest refuses the current element and all later elements.
func (m *multiRead) refuseRest() {
	for range m.ops[m.at:] {
		m.body.MultiError(jute.Throttled)
	}
	m.at = len(m.ops) - 1
}
