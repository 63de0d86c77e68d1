package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// The payload of a log entry: a version, a checksum, and the message.
//
//	byte 0       0x01
//	bytes 1-4    CRC-32C of the rest, little-endian
//	bytes 5-     holdfast.log.v1.Entry
const (
	entryVersion = 0x01
	frameSize    = 5
)

// commandsField is the field number of Entry.commands.
const commandsField = 1

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// EncodeEntry returns the payload of a Raft entry that carries commands. The same commands give the same bytes. The
// error is a [session.FieldError] when a command is out of range. Safe for concurrent use.
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

// encodeCommand returns the bytes of c in an entry, with their tag and length.
func encodeCommand(c session.Command) ([]byte, error) {
	if err := check(c); err != nil {
		return nil, err
	}
	if b, ok := quickEncode(c); ok {
		return b, nil
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

// frame returns the payload of one entry of encoded commands. Entry has no other field, so its message is the
// concatenation of the commands.
func frame(encoded [][]byte) []byte {
	size := frameSize
	for _, c := range encoded {
		size += len(c)
	}
	b := make([]byte, frameSize, size)
	for _, c := range encoded {
		b = append(b, c...)
	}
	seal(b)
	return b
}

// seal fills in the version and the checksum of an entry's payload, of which the message is complete.
func seal(b []byte) {
	b[0] = entryVersion
	binary.LittleEndian.PutUint32(b[1:], checksum(b[frameSize:]))
}

var (
	errEmpty   = errors.New("entry has no commands")
	errUnknown = errors.New("unknown to this version")
)

// CheckEntry returns an error when the frame or the checksum of an entry is wrong. It accepts every entry of another
// version, which only a release that knows the version can check. Safe for concurrent use.
func CheckEntry(data []byte) error {
	switch {
	case len(data) > 0 && data[0] != entryVersion:
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
	switch {
	case len(data) < frameSize:
		return nil, corrupt("entry of %d bytes is shorter than its frame of %d", len(data), frameSize)
	case data[0] == 0: // no release wrote this version, but a page that was never written holds zeros
		return nil, corrupt("entry version 0: there is no such version")
	case data[0] != entryVersion:
		return nil, fmt.Errorf("entry version %d: %w", data[0], errUnknown)
	}
	if err := verifyChecksum(data); err != nil {
		return nil, err
	}
	if commands, ok := quickDecode(data[frameSize:]); ok {
		return commands, nil
	}
	return decodeGenerated(data[frameSize:])
}

// decodeGenerated returns the commands of an entry's message through the generated messages.
func decodeGenerated(message []byte) ([]session.Command, error) {
	var entry logv1.Entry
	if err := proto.Unmarshal(message, &entry); err != nil {
		return nil, fmt.Errorf("entry message: %w", err)
	}
	if err := noUnknownFields(&entry); err != nil {
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
