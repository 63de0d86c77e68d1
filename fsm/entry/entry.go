// Package entry is the format of log entries: it encodes commands to the payload of a Raft entry and decodes them. It
// has no state and no locks. Each command has its checks and its encodings in one file: open.go, move.go, close.go,
// cluster.go, operator.go; package tree/form encodes the commands of the tree (treecommand.go).
//
// Nodes keep entries for years and replicas must read them alike, so the package is strict: the same commands give the
// same bytes, [Decode] understands an entry in full or refuses it, and encoding and decoding check the same ranges. A
// node therefore writes no entry that another node refuses. Golden files in testdata hold the bytes of every command.
package entry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"holdfast/fsm/codec"
	pb "holdfast/proto/fields"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// FrameSize is the size of the frame before an entry's message. The payload of a log entry is:
//
//	byte 0       0x01, the format
//	bytes 1-4    CRC-32C of the rest, little-endian
//	bytes 5-     holdfast.log.v1.Entry
const FrameSize = 5

const format = session.EntryFormat

// Numbers of the fields of the message Entry.
const (
	commandsField = 1
	wallField     = 2
	clockField    = 3
)

// Encode returns the payload of a Raft entry with commands. The error is a [session.FieldError] when a field of a
// command is out of range.
func Encode(commands []session.Command) ([]byte, error) {
	return EncodeAt(commands, Clocks{})
}

// EncodeAt is [Encode] for an entry with the leader's clocks (D3 log clock). Such an entry may have no commands.
func EncodeAt(commands []session.Command, clocks Clocks) ([]byte, error) {
	if len(commands) == 0 && clocks == (Clocks{}) {
		return nil, errEmpty
	}
	encoded := make([][]byte, len(commands))
	for i, c := range commands {
		var err error
		if encoded[i], err = EncodeCommand(c); err != nil {
			return nil, fmt.Errorf("command %d: %w", i, err)
		}
	}
	return Join(encoded, clocks), nil
}

// EncodeCommand returns the bytes that c takes in an entry, with their tag and length. [Join] puts the bytes of several
// commands into one entry.
func EncodeCommand(c session.Command) ([]byte, error) {
	if err := check(c); err != nil {
		return nil, err
	}
	if b, ok := quickEncode(c); ok {
		return b, nil
	}
	if t, ok := TreeCommand(c); ok {
		b := make([]byte, 0, len(t.Encoded)+1+binary.MaxVarintLen32)
		return protowire.AppendBytes(protowire.AppendTag(b, commandsField, protowire.BytesType), t.Encoded), nil
	}
	return encodeGenerated(c)
}

// encodeGenerated encodes c with the generated messages.
func encodeGenerated(c session.Command) ([]byte, error) {
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(commandProto(c))
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", c, err)
	}
	b := make([]byte, 0, len(message)+binary.MaxVarintLen32+1)
	b = protowire.AppendTag(b, commandsField, protowire.BytesType)
	return protowire.AppendBytes(b, message), nil
}

// Join returns the payload of one entry with the commands that [EncodeCommand] has encoded, and the leader's clocks.
func Join(encoded [][]byte, clocks Clocks) []byte {
	size := FrameSize + clocksSize
	for _, c := range encoded {
		size += len(c)
	}
	b := make([]byte, FrameSize, size)
	for _, c := range encoded {
		b = append(b, c...)
	}
	b = clocks.append(b)
	seal(b)
	return b
}

// seal writes the frame before the complete message in b.
func seal(b []byte) {
	b[0] = format
	binary.LittleEndian.PutUint32(b[1:], codec.Checksum(b[FrameSize:]))
}

var errEmpty = errors.New("entry has no commands")

// CheckFrame returns an error when the frame or the checksum of an entry is wrong. It accepts entries of other formats:
// only a release that knows the format can check them.
func CheckFrame(data []byte) error {
	switch {
	case len(data) > 0 && data[0] != format:
		return nil
	case len(data) < FrameSize:
		return codec.Corrupt("entry of %d bytes is shorter than its frame of %d", len(data), FrameSize)
	}
	return verifyChecksum(data)
}

func verifyChecksum(data []byte) error {
	if got, want := codec.Checksum(data[FrameSize:]), binary.LittleEndian.Uint32(data[1:]); got != want {
		return codec.Corrupt("entry checksum is %08x, its frame says %08x", got, want)
	}
	return nil
}

// Entry is a decoded log entry.
type Entry struct {
	Commands []session.Command
	Clocks   Clocks
}

// Clocks are the leader's clocks at the moment when it put the entry together (D3).
type Clocks struct {
	// WallMS is the wall clock in Unix milliseconds. Log is the running clock; the log clock L is the part of it that
	// passed outside freezes (Y3 freeze).
	WallMS int64
	Log    time.Duration
}

// clocksSize bounds the bytes that clocks take in an entry.
const clocksSize = 2 * (1 + binary.MaxVarintLen64)

// append appends the clocks to an entry's message. It cuts them to their bounds: people alone read the wall clock, and
// a leader whose clock is wrong by centuries must not halt the replicas.
func (c Clocks) append(b []byte) []byte {
	if c == (Clocks{}) {
		return b
	}
	c.WallMS, c.Log = min(max(c.WallMS, 1), codec.MaxClockMS), min(max(c.Log, 0), codec.MaxClockMS*time.Millisecond)
	b = pb.Varint(b, wallField, uint64(c.WallMS))
	return pb.Varint(b, clockField, uint64(c.Log.Milliseconds()))
}

// Decode decodes the payload of a Raft entry. It skips nothing and corrects nothing, because replicas that read an
// entry differently would differ for ever. The error names the command and the field that Decode does not understand.
// The commands share memory with data, which must not change: a value of 1 MB is copied only into the tree.
func Decode(data []byte) (Entry, error) {
	switch {
	case len(data) < FrameSize:
		return Entry{}, codec.Corrupt("entry of %d bytes is shorter than its frame of %d", len(data), FrameSize)
	case data[0] == 0: // no release writes format 0, but a page that was never written holds zeros
		return Entry{}, codec.Corrupt("entry format 0: there is no such format")
	case data[0] != format:
		return Entry{}, session.CheckFormat("the entry", uint64(data[0]), format, "")
	}
	if err := verifyChecksum(data); err != nil {
		return Entry{}, err
	}
	if e, ok := quickDecode(data[FrameSize:]); ok {
		return e, nil
	}
	return decodeGenerated(data[FrameSize:])
}

// decodeGenerated decodes an entry's message with the generated messages.
func decodeGenerated(message []byte) (Entry, error) {
	var m logv1.Entry
	if err := proto.Unmarshal(message, &m); err != nil {
		return Entry{}, fmt.Errorf("entry message: %w", err)
	}
	if err := codec.NoUnknownFields(&m); err != nil {
		return Entry{}, fmt.Errorf("entry: %w", err)
	}
	e := Entry{Commands: make([]session.Command, len(m.GetCommands()))}
	var err error
	if e.Clocks, err = clocksFrom(m.GetWallMs(), m.GetClockMs()); err != nil {
		return Entry{}, err
	}
	if len(e.Commands) == 0 && e.Clocks == (Clocks{}) {
		return Entry{}, errEmpty
	}
	for i, c := range m.GetCommands() {
		if e.Commands[i], err = commandFrom(c); err != nil {
			return Entry{}, fmt.Errorf("command %d of %d: %w", i, len(e.Commands), err)
		}
	}
	return e, nil
}

func clocksFrom(wall, clock uint64) (Clocks, error) {
	if wall > codec.MaxClockMS {
		return Clocks{}, codec.OutOfRange("wall_ms", "below 2^43")
	}
	log, err := codec.ClockFrom(clock)
	return Clocks{WallMS: int64(wall), Log: log}, err
}
