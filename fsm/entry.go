package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "holdfast/proto/fields"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// The payload of a log entry: the number of its format, a checksum, and the message.
//
//	byte 0       0x01, the format
//	bytes 1-4    CRC-32C of the rest, little-endian
//	bytes 5-     holdfast.log.v1.Entry
const (
	entryFormat = session.EntryFormat
	frameSize   = 5
)

// Numbers of the fields of Entry.
const (
	commandsField = 1
	wallField     = 2
	clockField    = 3
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// EncodeEntry returns the payload of a Raft entry that carries commands. The same commands give the same bytes. The
// error is a [session.FieldError] when a command is out of range. Safe for concurrent use.
func EncodeEntry(commands []session.Command) ([]byte, error) {
	return EncodeEntryAt(commands, Clocks{})
}

// EncodeEntryAt is [EncodeEntry] for an entry that says what the leader's clocks show (D3). It may be empty.
func EncodeEntryAt(commands []session.Command, clocks Clocks) ([]byte, error) {
	if len(commands) == 0 && clocks == (Clocks{}) {
		return nil, errEmpty
	}
	encoded := make([][]byte, len(commands))
	for i, c := range commands {
		var err error
		if encoded[i], err = encodeCommand(c); err != nil {
			return nil, fmt.Errorf("command %d: %w", i, err)
		}
	}
	return frame(encoded, clocks), nil
}

// encodeCommand returns the bytes of c in an entry, with their tag and length.
func encodeCommand(c session.Command) ([]byte, error) {
	if err := check(c); err != nil {
		return nil, err
	}
	if b, ok := quickEncode(c); ok {
		return b, nil
	}
	if t, ok := treeForm(c); ok {
		b := make([]byte, 0, len(t.Encoded)+1+binary.MaxVarintLen32)
		return protowire.AppendBytes(protowire.AppendTag(b, commandsField, protowire.BytesType), t.Encoded), nil
	}
	return encodeGenerated(c)
}

// encodeGenerated is encodeCommand through the generated messages.
func encodeGenerated(c session.Command) ([]byte, error) {
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(commandProto(c))
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", c, err)
	}
	b := make([]byte, 0, len(message)+binary.MaxVarintLen32+1)
	b = protowire.AppendTag(b, commandsField, protowire.BytesType)
	return protowire.AppendBytes(b, message), nil
}

// frame returns the payload of one entry of encoded commands: its message is their concatenation, and the clocks.
func frame(encoded [][]byte, clocks Clocks) []byte {
	size := frameSize + clocksSize
	for _, c := range encoded {
		size += len(c)
	}
	b := make([]byte, frameSize, size)
	for _, c := range encoded {
		b = append(b, c...)
	}
	b = clocks.append(b)
	seal(b)
	return b
}

// seal fills in the format and the checksum of an entry's payload, of which the message is complete.
func seal(b []byte) {
	b[0] = entryFormat
	binary.LittleEndian.PutUint32(b[1:], checksum(b[frameSize:]))
}

var (
	errEmpty   = errors.New("entry has no commands")
	errUnknown = errors.New("unknown to this program")
)

// CheckEntry returns an error when the frame or the checksum of an entry is wrong. It accepts every entry of another
// format, which only a program that knows the format can check. Safe for concurrent use.
func CheckEntry(data []byte) error {
	switch {
	case len(data) > 0 && data[0] != entryFormat:
		return nil
	case len(data) < frameSize:
		return corrupt("entry of %d bytes is shorter than its frame of %d", len(data), frameSize)
	}
	return verifyChecksum(data)
}

// verifyChecksum returns an error when the checksum in an entry's payload is not the checksum of its message.
func verifyChecksum(data []byte) error {
	if got, want := checksum(data[frameSize:]), binary.LittleEndian.Uint32(data[1:]); got != want {
		return corrupt("entry checksum is %08x, its frame says %08x", got, want)
	}
	return nil
}

// DecodeEntry returns the commands of a Raft entry's payload. It is strict: it leaves out and corrects nothing, because
// replicas that read one entry differently would differ for ever. The error names the command and the field that it
// cannot understand. Safe for concurrent use; the commands share no memory with data.
func DecodeEntry(data []byte) ([]session.Command, error) {
	e, err := decodeEntry(data)
	return e.commands, err
}

// entry is what the payload of a Raft entry says.
type entry struct {
	commands []session.Command
	clocks   Clocks
}

// Clocks are what the leader's clocks showed when it put an entry together (D3).
type Clocks struct {
	// WallMS is the wall clock in Unix milliseconds. Log is the running clock, of which the log clock L is what passed
	// outside freezes (Y3).
	WallMS int64
	Log    time.Duration
}

// clocksSize is the most bytes that clocks take in an entry.
const clocksSize = 2 * (1 + binary.MaxVarintLen64)

// append appends the clocks to an entry's message, within their bounds: wall time is only shown, and a clock that is
// wrong by centuries must stop no replica.
func (c Clocks) append(b []byte) []byte {
	if c == (Clocks{}) {
		return b
	}
	c.WallMS, c.Log = min(max(c.WallMS, 1), maxClockMS), min(max(c.Log, 0), maxClockMS*time.Millisecond)
	b = pb.Varint(b, wallField, uint64(c.WallMS))
	return pb.Varint(b, clockField, uint64(c.Log.Milliseconds()))
}

func decodeEntry(data []byte) (entry, error) {
	switch {
	case len(data) < frameSize:
		return entry{}, corrupt("entry of %d bytes is shorter than its frame of %d", len(data), frameSize)
	case data[0] == 0: // nobody writes this format, but a page that was never written holds zeros
		return entry{}, corrupt("entry format 0: there is no such format")
	case data[0] != entryFormat:
		return entry{}, session.CheckFormat("the entry", uint64(data[0]), entryFormat, "")
	}
	if err := verifyChecksum(data); err != nil {
		return entry{}, err
	}
	if e, ok := quickDecode(data[frameSize:]); ok {
		return e, nil
	}
	return decodeGenerated(data[frameSize:])
}

// decodeGenerated returns the commands of an entry's message through the generated messages.
func decodeGenerated(message []byte) (entry, error) {
	var m logv1.Entry
	if err := proto.Unmarshal(message, &m); err != nil {
		return entry{}, fmt.Errorf("entry message: %w", err)
	}
	if err := noUnknownFields(&m); err != nil {
		return entry{}, fmt.Errorf("entry: %w", err)
	}
	e := entry{commands: make([]session.Command, len(m.GetCommands()))}
	var err error
	if e.clocks, err = clocksFrom(m.GetWallMs(), m.GetClockMs()); err != nil {
		return entry{}, err
	}
	if len(e.commands) == 0 && e.clocks == (Clocks{}) {
		return entry{}, errEmpty
	}
	for i, c := range m.GetCommands() {
		if e.commands[i], err = commandFrom(c); err != nil {
			return entry{}, fmt.Errorf("command %d of %d: %w", i, len(e.commands), err)
		}
	}
	return e, nil
}

// maxClockMS bounds the clocks of an entry: 2^43 ms are 278 years.
const maxClockMS = 1<<43 - 1

// MaxClock is later than every log clock, and than all that is due.
const MaxClock = time.Duration(math.MaxInt64)

func clocksFrom(wall, clock uint64) (Clocks, error) {
	switch {
	case wall > maxClockMS:
		return Clocks{}, outOfRange("wall_ms", "below 2^43")
	case clock > maxClockMS:
		return Clocks{}, outOfRange("clock_ms", "below 2^43")
	}
	return Clocks{WallMS: int64(wall), Log: time.Duration(clock) * time.Millisecond}, nil
}
