package fsm

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"holdfast/fsm/certificates"
	"holdfast/fsm/codec"
	"holdfast/fsm/requests"
	"holdfast/fsm/sessions"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// readSnapshot reads a snapshot of writeSnapshot to its end. The caller may change the tables of the view.
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
		if err := r.add(m); err != nil {
			return nil, fmt.Errorf("record %d: %w", number, err)
		}
	}
	if _, err := r.r.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("record %d: more bytes after the trailer", r.count)
	}
	return &View{index: r.header.GetIndex(), term: r.header.GetTerm(), tables: *r.tables}, nil
}

// part is a part of a snapshot file. The parts follow each other in this order.
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
	// treeRestorer restores the tree state. It is nil before the header.
	treeRestorer *treeRestorer
}

func (r *restorer) add(one record) error {
	if one.treeRecord != nil {
		return r.addTreeRecord(one.treeRecord)
	}
	switch m := one.GetRecord().(type) {
	case *logv1.Record_Header:
		return named("header", r.addHeader(m.Header))
	case *logv1.Record_Mark:
		return named("mark", r.addMark(m.Mark))
	case *logv1.Record_Session:
		return named("session", r.addSession(m.Session))
	case *logv1.Record_Certificate:
		return named("certificate", r.addCertificate(m.Certificate))
	case *logv1.Record_OpenRequest:
		return named("open_request", r.addRequest(m.OpenRequest))
	case *logv1.Record_Trailer:
		return named("trailer", r.checkTrailer(m.Trailer))
	default:
		return errors.New("empty")
	}
}

// named adds the kind of the record to err.
func named(record string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", record, err)
	}
	return nil
}

// enter checks that a record of the part next may follow, that its key is above the key of the record before, and that
// the record has no unknown fields.
func (r *restorer) enter(next part, m proto.Message, key uint64) error {
	switch {
	case r.header == nil:
		return errors.New("comes before the header")
	case next < r.at:
		return errors.New("comes after records of a later part")
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
	return codec.NoUnknownFields(m)
}

func (r *restorer) addHeader(m *logv1.Header) error {
	if r.header != nil {
		return errors.New("the file has a second header")
	}
	// The numbers come first: a header of another release may have further fields.
	err := session.CheckFormat("the snapshot", uint64(m.GetVersion()), session.SnapshotFormat, "")
	if err = cmp.Or(err, codec.CheckLevel(m.GetLevel()), codec.NoUnknownFields(m)); err != nil {
		return err
	}
	capacity, err := capacityFrom(m)
	if err != nil {
		return err
	}
	key, err := codec.KeyFrom(m.GetClusterKey())
	if err != nil {
		return err
	}
	r.header, r.tables.key, r.tables.attachment, r.tables.capacity = m, key, m.GetAttachment(), capacity
	r.tables.forgotten = m.GetForgottenIndex()
	return r.beginTree(m)
}

// capacityFrom decodes the capacity of a header, which is zero before the first SetCapacity.
func capacityFrom(m *logv1.Header) (session.Capacity, error) {
	c := session.Capacity{MaxSessions: m.GetMaxSessions(), MaxBytes: m.GetMaxStateBytes()}
	if c == (session.Capacity{}) {
		return c, nil
	}
	return c, codec.CheckCapacity(c)
}

func (r *restorer) addMark(m *logv1.Mark) error {
	if err := r.enter(inMarks, m, uint64(m.GetNode())); err != nil {
		return err
	}
	node, err := codec.NodeFrom("node", m.GetNode())
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

func (r *restorer) addSession(m *logv1.Session) error {
	if err := r.enter(inSessions, m, m.GetId()); err != nil {
		return err
	}
	s, err := sessions.Decode(m)
	switch {
	case err != nil:
		return err
	case !s.ID.Node().Valid() || s.ID > r.tables.marks[s.ID.Node()]:
		return fmt.Errorf("id %v is above its node's mark", s.ID)
	case s.Attachment == 0 || s.Attachment > r.tables.attachment:
		return codec.OutOfRange("attachment", fmt.Sprintf("1 to the header's %d", r.tables.attachment))
	}
	r.tables.putSession(s)
	return r.addExtension(m)
}

// addExtension adds the extension in a session's record.
func (r *restorer) addExtension(m *logv1.Session) error {
	switch {
	case m.GetKeptMs() == 0:
		return nil
	case m.GetKeptMs() > codec.MaxClockMS:
		return codec.OutOfRange("kept_ms", "below 2^43")
	case len(r.treeRestorer.state.extensions.all) == session.MaxExtended:
		return errors.New("the file has too many sessions with kept_ms: at most " + strconv.Itoa(session.MaxExtended))
	}
	r.treeRestorer.state.extend(extension{session.ID(m.GetId()), time.Duration(m.GetKeptMs()) * time.Millisecond})
	return nil
}

func (r *restorer) addCertificate(m *logv1.Certificate) error {
	first := r.at != inCertificates
	// Numbers begin at 0, keys must be above 0.
	if err := r.enter(inCertificates, m, m.GetNumber()+1); err != nil {
		return err
	}
	c, err := certificates.Decode(m)
	if err != nil {
		return err
	}
	if first {
		r.tables.issued = c.Number
	}
	if c.Number != r.tables.issued {
		return fmt.Errorf("number is %d, and %d must come next", c.Number, r.tables.issued)
	}
	if _, ok := r.tables.certificate(c.ID); ok || c.ID == 0 {
		return fmt.Errorf("session %v has a second certificate, or is no session", c.ID)
	}
	r.tables.addCertificate(c)
	return nil
}

func (r *restorer) addRequest(m *logv1.OpenRequest) error {
	if r.at == inRequests && m.GetIndex() == r.last {
		r.last-- // the opens of one entry have its index
	}
	if err := r.enter(inRequests, m, m.GetIndex()); err != nil {
		return err
	}
	q, err := requests.Decode(m)
	if err != nil {
		return err
	}
	if _, ok := r.tables.requests.Find(q.ID); ok {
		return errors.New("the file has a second open_request with this request_id")
	}
	r.tables.addRequest(q)
	return nil
}

func (r *restorer) checkTrailer(m *logv1.Trailer) error {
	if err := r.enter(atEnd, m, 0); err != nil {
		return err
	}
	t := r.tables
	kept := t.certificates.Items
	if len(kept) == 0 {
		t.issued = r.header.GetCertificates()
	}
	if t.issued != r.header.GetCertificates() {
		return fmt.Errorf("the file has %d certificates up to number %d, and the header says %d", len(kept), t.issued,
			r.header.GetCertificates())
	}
	if all := uint64(len(kept)) == t.issued; all != (t.forgotten == 0) || len(kept) > 0 && kept[0].Index < t.forgotten {
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
