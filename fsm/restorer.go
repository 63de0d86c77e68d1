package fsm

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// readSnapshot returns the state that writeSnapshot wrote. The view's tables can be written to.
func readSnapshot(from io.Reader) (*View, error) {
	r := &restorer{recordReader: recordReader{r: bufio.NewReaderSize(from, snapshotBuffer)}, tables: emptyTables()}
	if err := r.magic(); err != nil {
		return nil, err
	}
	for r.at != atEnd {
		number := r.count
		m, err := r.next()
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", number, err)
		}
		if err := r.take(m); err != nil {
			return nil, fmt.Errorf("record %d: %w", number, err)
		}
	}
	if _, err := r.r.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("record %d: more bytes after the trailer", r.count)
	}
	return &View{index: r.header.GetIndex(), term: r.header.GetTerm(), tables: *r.tables}, nil
}

// part is a part of a snapshot file. The parts come in this order.
type part int

const (
	atStart part = iota
	inMarks
	inSessions
	inWriters
	inTree
	inCertificates
	inRequests
	atEnd
)

// restorer builds tables from records.
type restorer struct {
	recordReader
	at     part
	header *logv1.Header
	tables *tables
	last   uint64 // key of the newest record of this part
	// hanging restores what hangs on the sessions; nil before the header.
	hanging *spaceRestorer
}

func (r *restorer) take(one record) error {
	if one.ofTree != nil {
		return r.takeOfTree(one.ofTree)
	}
	switch m := one.GetRecord().(type) {
	case *logv1.Record_Header:
		return named("header", r.takeHeader(m.Header))
	case *logv1.Record_Mark:
		return named("mark", r.takeMark(m.Mark))
	case *logv1.Record_Session:
		return named("session", r.takeSession(m.Session))
	case *logv1.Record_Certificate:
		return named("certificate", r.takeCertificate(m.Certificate))
	case *logv1.Record_OpenRequest:
		return named("open_request", r.takeRequest(m.OpenRequest))
	case *logv1.Record_Trailer:
		return named("trailer", r.takeTrailer(m.Trailer))
	default:
		return errors.New("it is empty")
	}
}

// named adds the kind of the record to err.
func named(record string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", record, err)
	}
	return nil
}

// enter checks that a record of the part next may come now, that its key is above the key of the record before, and
// that it has no unknown fields.
func (r *restorer) enter(next part, m proto.Message, key uint64) error {
	switch {
	case r.header == nil:
		return errors.New("it comes before the header")
	case next < r.at:
		return errors.New("it comes after records of a later part")
	case next == r.at && key <= r.last:
		return fmt.Errorf("%d comes after %d", key, r.last)
	}
	if next > inTree {
		if err := r.finishTree(); err != nil {
			return err
		}
	}
	r.at, r.last = next, key
	if m == nil {
		return nil // package form has read it, and knows all its fields
	}
	return noUnknownFields(m)
}

func (r *restorer) takeHeader(m *logv1.Header) error {
	if r.header != nil {
		return errors.New("the file has a second header")
	}
	// The numbers come first: a header of another release may have fields more.
	err := session.CheckFormat("the snapshot", uint64(m.GetVersion()), session.SnapshotFormat, "")
	if err = cmp.Or(err, checkLevel(m.GetLevel()), noUnknownFields(m)); err != nil {
		return err
	}
	capacity, err := capacityFrom(m)
	if err != nil {
		return err
	}
	key, err := keyFrom(m.GetClusterKey())
	if err != nil {
		return err
	}
	r.header, r.tables.key, r.tables.attachment, r.tables.capacity = m, key, m.GetAttachment(), capacity
	r.tables.forgotten = m.GetForgottenIndex()
	return r.beginTree(m)
}

// capacityFrom returns the capacity in a header, which is zero before the first SetCapacity.
func capacityFrom(m *logv1.Header) (session.Capacity, error) {
	c := session.Capacity{MaxSessions: m.GetMaxSessions(), MaxBytes: m.GetMaxStateBytes()}
	if c == (session.Capacity{}) {
		return c, nil
	}
	return c, checkCapacity(c)
}

func (r *restorer) takeMark(m *logv1.Mark) error {
	if err := r.enter(inMarks, m, uint64(m.GetNode())); err != nil {
		return err
	}
	node, err := nodeFrom("node", m.GetNode())
	if err != nil {
		return err
	}
	mark := session.ID(m.GetId())
	if mark.Node() != node {
		return fmt.Errorf("id %v is no id of node %d", mark, node)
	}
	r.tables.setMark(mark)
	return nil
}

func (r *restorer) takeSession(m *logv1.Session) error {
	if err := r.enter(inSessions, m, m.GetId()); err != nil {
		return err
	}
	id := session.ID(m.GetId())
	owner, err := nodeFrom("owner", m.GetOwner())
	if err != nil {
		return err
	}
	labels, err := labelsFrom(m.GetLabels())
	if err != nil {
		return err
	}
	switch {
	case !id.Node().Valid() || id > r.tables.marks[id.Node()]:
		return fmt.Errorf("id %v is above its node's mark", id)
	case m.GetTimeoutMs() == 0 || unpackTimeout(m.GetTimeoutMs()) > session.MaxTimeout:
		return outOfRange("timeout_ms", "1 ms to "+session.MaxTimeout.String())
	case m.GetAttachment() == 0 || m.GetAttachment() > r.tables.attachment:
		return outOfRange("attachment", fmt.Sprintf("1 to the header's %d", r.tables.attachment))
	}
	s := &storedSession{
		id: id, attachment: m.GetAttachment(), owner: owner, timeoutMS: m.GetTimeoutMs(),
		instance: m.GetInstance(), attempt: m.GetAttempt(), openedIndex: m.GetOpenedIndex(), openedMS: m.GetOpenedMs(),
	}
	if len(labels) > 0 {
		s.labels = &labels
	}
	r.tables.putSession(s)
	return r.takeKept(m)
}

func (r *restorer) takeCertificate(m *logv1.Certificate) error {
	first := r.at != inCertificates
	// Numbers begin at 0, keys above 0.
	if err := r.enter(inCertificates, m, m.GetNumber()+1); err != nil {
		return err
	}
	owner, err := nodeFrom("owner", m.GetOwner())
	if err != nil {
		return err
	}
	cause, err := causeFrom(m.GetCause())
	if err != nil {
		return err
	}
	clocks, err := clocksFrom(0, m.GetClockMs())
	if err != nil {
		return err
	}
	if first {
		r.tables.issued = m.GetNumber()
	}
	if m.GetNumber() != r.tables.issued {
		return fmt.Errorf("number is %d, and %d must come next", m.GetNumber(), r.tables.issued)
	}
	c := &certificate{
		id: session.ID(m.GetId()), number: m.GetNumber(), term: m.GetTerm(), index: m.GetIndex(),
		credited: m.GetCreditedMs(), ms: m.GetMs(), clock: clocks.Log,
		age: m.GetLastTouchAgeMsPlus_1(), owner: owner, cause: cause,
	}
	if c.left, err = leftFrom(m); err != nil {
		return err
	}
	if c.story, err = storyFrom(m); err != nil {
		return err
	}
	if _, ok := r.tables.certificate(c.id); ok || c.id == 0 {
		return fmt.Errorf("session %v has a second certificate, or is no session", c.id)
	}
	r.tables.addCertificate(c)
	return nil
}

func (r *restorer) takeRequest(m *logv1.OpenRequest) error {
	if r.at == inRequests && m.GetIndex() == r.last {
		r.last-- // the opens of one entry have its index
	}
	if err := r.enter(inRequests, m, m.GetIndex()); err != nil {
		return err
	}
	id, err := requestIDFrom(m.GetRequestId())
	if err != nil {
		return err
	}
	q := &request{id: id, session: session.ID(m.GetSessionId()), index: m.GetIndex()}
	if _, ok := r.tables.requests.find(q.id); ok {
		return errors.New("the file has a second open_request with this request_id")
	}
	r.tables.addRequest(q)
	return nil
}

func (r *restorer) takeTrailer(m *logv1.Trailer) error {
	if err := r.enter(atEnd, m, 0); err != nil {
		return err
	}
	t := r.tables
	kept := t.certificates.items
	if len(kept) == 0 {
		t.issued = r.header.GetCertificates()
	}
	if t.issued != r.header.GetCertificates() {
		return fmt.Errorf("the file has %d certificates up to number %d, and the header says %d", len(kept), t.issued,
			r.header.GetCertificates())
	}
	if all := uint64(len(kept)) == t.issued; all != (t.forgotten == 0) || len(kept) > 0 && kept[0].index < t.forgotten {
		return fmt.Errorf("the file has %d of %d certificates, and the header says that one at index %d was dropped last",
			len(kept), t.issued, t.forgotten)
	}
	if got := r.count - 1; m.GetRecords() != got {
		return fmt.Errorf("the file has %d records, and the trailer says %d", got, m.GetRecords())
	}
	if got := t.digest(); string(m.GetDigest()) != string(got[:]) {
		return fmt.Errorf("the state's digest is %x, and the trailer says %x", got, m.GetDigest())
	}
	return nil
}
