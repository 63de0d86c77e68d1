package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// The frame of a log entry: a version, and the checksum of the message that follows.
//
//	byte 0       0x01
//	bytes 1-4    CRC-32C of the rest, little-endian
//	bytes 5-     holdfast.log.v1.Entry
const (
	entryVersion = 0x01
	frameSize    = 5
)

// commandsField is the number of Entry.commands.
const commandsField = 1

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// EncodeEntry returns the payload of the Raft entry that carries commands. The same commands give the same bytes. A
// command that is out of range is refused with a [session.FieldError]. Safe for concurrent use.
func EncodeEntry(commands []session.Command) ([]byte, error) {
	if len(commands) == 0 {
		return nil, errEmpty
	}
	encoded := make([][]byte, len(commands))
	for i, c := range commands {
		var err error
		if encoded[i], err = encodeCommand(c); err != nil {
			return nil, fmt.Errorf("command %d: %w", i, err)
		}
	}
	return frame(encoded), nil
}

// encodeCommand returns c as it stands in an entry, with its tag and length.
func encodeCommand(c session.Command) ([]byte, error) {
	if err := check(c); err != nil {
		return nil, err
	}
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(commandProto(c))
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", c, err)
	}
	b := make([]byte, 0, len(message)+binary.MaxVarintLen32+1)
	b = protowire.AppendTag(b, commandsField, protowire.BytesType)
	return protowire.AppendBytes(b, message), nil
}

// frame makes one entry of encoded commands. Entry has no other field, so its message is their concatenation.
func frame(encoded [][]byte) []byte {
	size := frameSize
	for _, c := range encoded {
		size += len(c)
	}
	b := make([]byte, frameSize, size)
	for _, c := range encoded {
		b = append(b, c...)
	}
	b[0] = entryVersion
	binary.LittleEndian.PutUint32(b[1:], checksum(b[frameSize:]))
	return b
}

var (
	errEmpty   = errors.New("entry has no commands")
	errUnknown = errors.New("unknown to this version")
)

// CheckEntry returns what is wrong with the frame of an entry, nil for one of another version: what is in that, the
// release that knows it can tell. Safe for concurrent use.
func CheckEntry(data []byte) error {
	switch {
	case len(data) > 0 && data[0] != entryVersion:
		return nil
	case len(data) < frameSize:
		return damaged("entry of %d bytes is shorter than its frame of %d", len(data), frameSize)
	}
	return checkSum(data)
}

// checkSum returns an error for the payload of an entry whose checksum is not that of its message.
func checkSum(data []byte) error {
	if got, want := checksum(data[frameSize:]), binary.LittleEndian.Uint32(data[1:]); got != want {
		return damaged("entry checksum is %08x, its frame says %08x", got, want)
	}
	return nil
}

// DecodeEntry returns the commands of a Raft entry's payload. It is strict: the error says which command and which
// field it cannot understand, and nothing is left out or corrected on the way, because replicas that read one entry
// differently part for ever. Safe for concurrent use; the commands share no memory with data.
func DecodeEntry(data []byte) ([]session.Command, error) {
	switch {
	case len(data) < frameSize:
		return nil, damaged("entry of %d bytes is shorter than its frame of %d", len(data), frameSize)
	case data[0] == 0: // there never was such a version, and a page that was never written is full of them
		return nil, damaged("entry version 0: there is no such version")
	case data[0] != entryVersion:
		return nil, fmt.Errorf("entry version %d: %w", data[0], errUnknown)
	}
	if err := checkSum(data); err != nil {
		return nil, err
	}
	var entry logv1.Entry
	if err := proto.Unmarshal(data[frameSize:], &entry); err != nil {
		return nil, fmt.Errorf("entry message: %w", err)
	}
	if err := known(&entry); err != nil {
		return nil, fmt.Errorf("entry: %w", err)
	}
	if len(entry.GetCommands()) == 0 {
		return nil, errEmpty
	}
	commands := make([]session.Command, len(entry.GetCommands()))
	for i, m := range entry.GetCommands() {
		var err error
		if commands[i], err = commandFrom(m); err != nil {
			return nil, fmt.Errorf("command %d of %d: %w", i, len(commands), err)
		}
	}
	return commands, nil
}

// known refuses fields that a newer version put into m: to drop them would be to drop their meaning.
func known(m proto.Message) error {
	unknown := m.ProtoReflect().GetUnknown()
	if len(unknown) == 0 {
		return nil
	}
	number, _, n := protowire.ConsumeTag(unknown)
	if n < 0 {
		return fmt.Errorf("a field is %w", errUnknown)
	}
	return fmt.Errorf("field %d is %w", number, errUnknown)
}

func commandProto(c session.Command) *logv1.Command {
	switch c := c.(type) {
	case session.OpenSession:
		return &logv1.Command{Command: &logv1.Command_OpenSession{OpenSession: &logv1.OpenSession{
			Node: uint32(c.Node), Ms: c.MS, TimeoutMs: uint32(c.Timeout.Milliseconds()),
			Labels: labelsProto(c.Labels), RequestId: c.RequestID[:],
		}}}
	case session.MoveSession:
		return &logv1.Command{Command: &logv1.Command_MoveSession{MoveSession: &logv1.MoveSession{
			Id: uint64(c.ID), Owner: uint32(c.NewOwner), Instance: c.Instance, Attempt: c.Attempt,
			Named: c.Named, NamedLocal: c.NamedLocal,
		}}}
	case session.CloseSessions:
		return &logv1.Command{Command: &logv1.Command_CloseSessions{CloseSessions: closeProto(c)}}
	case session.ForgetRequests:
		return &logv1.Command{Command: &logv1.Command_ForgetRequests{ForgetRequests: &logv1.ForgetRequests{
			UpToIndex: c.UpToIndex,
		}}}
	case session.Configure:
		return &logv1.Command{Command: &logv1.Command_Configure{Configure: &logv1.Configure{
			ClusterKey: keyBytes(c.Key), Nonce: c.Nonce,
		}}}
	case session.SetCapacity:
		return &logv1.Command{Command: &logv1.Command_SetCapacity{SetCapacity: &logv1.SetCapacity{
			MaxSessions: c.Capacity.MaxSessions, MaxStateBytes: c.Capacity.MaxBytes,
		}}}
	case session.UpgradeSession:
		return &logv1.Command{Command: &logv1.Command_UpgradeSession{UpgradeSession: upgradeProto(c)}}
	case session.ClaimIDs:
		return &logv1.Command{Command: &logv1.Command_ClaimIds{ClaimIds: &logv1.ClaimIDs{
			Node: uint32(c.Node), Ms: c.MS, Count: c.Count,
		}}}
	default:
		panic(fmt.Sprintf("fsm: command %T passed its check and cannot be encoded", c))
	}
}

func closeProto(c session.CloseSessions) *logv1.CloseSessions {
	m := &logv1.CloseSessions{
		Term: c.Term, Cause: logv1.Cause(c.Cause), CreditedMs: packCredited(c.Credited), Ms: c.MS,
		Sessions: make([]*logv1.Closing, len(c.Sessions)),
	}
	for i, s := range c.Sessions {
		m.Sessions[i] = &logv1.Closing{
			Id: uint64(s.ID), Attachment: s.Attachment, LastTouchAgeMsPlus_1: packAge(s.LastTouchAge),
		}
	}
	return m
}

func labelsProto(labels session.Labels) []*logv1.Label {
	if len(labels) == 0 {
		return nil
	}
	m := make([]*logv1.Label, len(labels))
	for i, l := range labels {
		m[i] = &logv1.Label{Key: l.Key, Value: l.Value}
	}
	return m
}

// keyBytes leaves a key of zeros out: it is none.
func keyBytes(k session.Key) []byte {
	if k == (session.Key{}) {
		return nil
	}
	return k[:]
}

func keyFrom(b []byte) (session.Key, error) {
	var k session.Key
	if len(b) == 0 {
		return k, nil
	}
	if copy(k[:], b) != len(b) || len(b) != len(k) || k == (session.Key{}) {
		return k, outOfRange("cluster_key", fmt.Sprintf("absent, or %d bytes that are not all zero", len(k)))
	}
	return k, nil
}

func commandFrom(m *logv1.Command) (session.Command, error) {
	if err := known(m); err != nil {
		return nil, err
	}
	var (
		c    session.Command
		err  error
		name string
	)
	switch m := m.GetCommand().(type) {
	case *logv1.Command_OpenSession:
		name = "open_session"
		c, err = openFrom(m.OpenSession)
	case *logv1.Command_MoveSession:
		name = "move_session"
		c, err = moveFrom(m.MoveSession)
	case *logv1.Command_CloseSessions:
		name = "close_sessions"
		c, err = closeFrom(m.CloseSessions)
	case *logv1.Command_ForgetRequests:
		name = "forget_requests"
		c, err = session.ForgetRequests{UpToIndex: m.ForgetRequests.GetUpToIndex()}, known(m.ForgetRequests)
	case *logv1.Command_Configure:
		name = "configure"
		c, err = configureFrom(m.Configure)
	case *logv1.Command_ClaimIds:
		name = "claim_ids"
		c, err = claimFrom(m.ClaimIds)
	case *logv1.Command_SetCapacity:
		name = "set_capacity"
		c, err = session.SetCapacity{Capacity: session.Capacity{
			MaxSessions: m.SetCapacity.GetMaxSessions(), MaxBytes: m.SetCapacity.GetMaxStateBytes(),
		}}, known(m.SetCapacity)
	case *logv1.Command_UpgradeSession:
		name = "upgrade_session"
		c, err = upgradeFrom(m.UpgradeSession)
	default:
		return nil, errors.New("empty")
	}
	if err == nil {
		err = check(c)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

func openFrom(m *logv1.OpenSession) (session.Command, error) {
	if err := known(m); err != nil {
		return nil, err
	}
	node, err := nodeFrom("node", m.GetNode())
	if err != nil {
		return nil, err
	}
	labels, err := labelsFrom(m.GetLabels())
	if err != nil {
		return nil, err
	}
	request, err := requestIDFrom(m.GetRequestId())
	if err != nil {
		return nil, err
	}
	return session.OpenSession{
		Node: node, MS: m.GetMs(), Timeout: unpackTimeout(m.GetTimeoutMs()), Labels: labels, RequestID: request,
	}, nil
}

func moveFrom(m *logv1.MoveSession) (session.Command, error) {
	if err := known(m); err != nil {
		return nil, err
	}
	owner, err := nodeFrom("owner", m.GetOwner())
	if err != nil {
		return nil, err
	}
	return session.MoveSession{
		ID: session.ID(m.GetId()), NewOwner: owner, Instance: m.GetInstance(), Attempt: m.GetAttempt(),
		Named: m.GetNamed(), NamedLocal: m.GetNamedLocal(),
	}, nil
}

func closeFrom(m *logv1.CloseSessions) (session.Command, error) {
	if err := known(m); err != nil {
		return nil, err
	}
	cause, err := causeFrom(m.GetCause())
	if err != nil {
		return nil, err
	}
	c := session.CloseSessions{
		Term: m.GetTerm(), Cause: cause, Credited: unpackCredited(m.GetCreditedMs()), MS: m.GetMs(),
		Sessions: make([]session.Closing, len(m.GetSessions())),
	}
	for i, s := range m.GetSessions() {
		if err := known(s); err != nil {
			return nil, fmt.Errorf("session %d: %w", i, err)
		}
		c.Sessions[i] = session.Closing{
			ID: session.ID(s.GetId()), Attachment: s.GetAttachment(),
			LastTouchAge: unpackAge(s.GetLastTouchAgeMsPlus_1()),
		}
	}
	return c, nil
}

func configureFrom(m *logv1.Configure) (session.Command, error) {
	if err := known(m); err != nil {
		return nil, err
	}
	key, err := keyFrom(m.GetClusterKey())
	if err != nil {
		return nil, err
	}
	return session.Configure{Key: key, Nonce: m.GetNonce()}, nil
}

func claimFrom(m *logv1.ClaimIDs) (session.Command, error) {
	if err := known(m); err != nil {
		return nil, err
	}
	node, err := nodeFrom("node", m.GetNode())
	if err != nil {
		return nil, err
	}
	return session.ClaimIDs{Node: node, MS: m.GetMs(), Count: m.GetCount()}, nil
}

func nodeFrom(field string, v uint32) (session.Node, error) {
	if v > math.MaxUint8 || !session.Node(v).Valid() {
		return 0, outOfRange(field, "1 to 254")
	}
	return session.Node(v), nil
}

func causeFrom(c logv1.Cause) (session.Cause, error) {
	if c != logv1.Cause_CAUSE_CLOSED && c != logv1.Cause_CAUSE_EXPIRED {
		return 0, outOfRange("cause", "closed or expired")
	}
	return session.Cause(c), nil
}

func labelsFrom(m []*logv1.Label) (session.Labels, error) {
	if len(m) == 0 {
		return nil, nil
	}
	labels := make(session.Labels, len(m))
	for i, l := range m {
		if err := known(l); err != nil {
			return nil, fmt.Errorf("label %d: %w", i, err)
		}
		labels[i] = session.Label{Key: l.GetKey(), Value: l.GetValue()}
	}
	return labels, labels.Check()
}

func requestIDFrom(b []byte) (session.RequestID, error) {
	var id session.RequestID
	if len(b) != len(id) {
		return id, outOfRange("request_id", fmt.Sprintf("%d bytes", len(id)))
	}
	return session.RequestID(b), nil
}
