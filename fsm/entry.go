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
		return corrupt("entry of %d bytes is shorter than its frame of %d", len(data), frameSize)
	}
	return verifyChecksum(data)
}

// verifyChecksum returns an error for the payload of an entry whose checksum is not that of its message.
func verifyChecksum(data []byte) error {
	if got, want := checksum(data[frameSize:]), binary.LittleEndian.Uint32(data[1:]); got != want {
		return corrupt("entry checksum is %08x, its frame says %08x", got, want)
	}
	return nil
}

// DecodeEntry returns the commands of a Raft entry's payload. It is strict: the error says which command and which
// field it cannot understand, and nothing is left out or corrected on the way, because replicas that read one entry
// differently part for ever. Safe for concurrent use; the commands share no memory with data.
func DecodeEntry(data []byte) ([]session.Command, error) {
	switch {
	case len(data) < frameSize:
		return nil, corrupt("entry of %d bytes is shorter than its frame of %d", len(data), frameSize)
	case data[0] == 0: // there never was such a version, and a page that was never written is full of them
		return nil, corrupt("entry version 0: there is no such version")
	case data[0] != entryVersion:
		return nil, fmt.Errorf("entry version %d: %w", data[0], errUnknown)
	}
	if err := verifyChecksum(data); err != nil {
		return nil, err
	}
	var entry logv1.Entry
	if err := proto.Unmarshal(data[frameSize:], &entry); err != nil {
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
