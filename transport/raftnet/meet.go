package raftnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
)

// Directory is the identity of a node's data directory ([Key.Directory]); 0 is none.
type Directory uint64

// String returns the identity as 16 hexadecimal digits.
func (d Directory) String() string { return fmt.Sprintf("%016x", uint64(d)) }

// MarshalText returns the text of String.
func (d Directory) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is [ParseDirectory].
func (d *Directory) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDirectory(string(b))
	return err
}

// ParseDirectory is the inverse of String.
func ParseDirectory(s string) (Directory, error) {
	d, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 || d == 0 {
		return 0, errors.New("a directory's identity is 16 hexadecimal digits, not all zero")
	}
	return Directory(d), nil
}

// directorySign separates an address from the expected directory, markSign the directory from each mark.
const (
	directorySign = "#"
	markSign      = "+"
)

// At returns an address in the form of a Raft configuration, for a node on directory d.
func At(address string, d Directory) raft.ServerAddress {
	return raft.ServerAddress(address + directorySign + d.String())
}

// Mark adds marks to an address of [At]. This package ignores them; marks contain no "+".
func Mark(address raft.ServerAddress, marks ...string) raft.ServerAddress {
	for _, mark := range marks {
		address += raft.ServerAddress(markSign + mark)
	}
	return address
}

// Marks is the inverse of [Mark]. An address without a directory has no marks.
func Marks(address raft.ServerAddress) (bare raft.ServerAddress, marks []string) {
	host, text, named := strings.Cut(string(address), directorySign)
	if !named {
		return address, nil
	}
	all := strings.Split(text, markSign)
	return raft.ServerAddress(host + directorySign + all[0]), all[1:]
}

// Split is the inverse of [At], and ignores marks; the directory is 0 when the address names none.
func Split(address raft.ServerAddress) (string, Directory, error) {
	bare, _ := Marks(address)
	host, text, named := strings.Cut(string(bare), directorySign)
	if !named {
		return host, 0, nil
	}
	d, err := ParseDirectory(text)
	return host, d, err
}

// expect returns an error if the node does not run on the directory that the address names.
func (g greeting) expect(want Directory) error {
	if want != 0 && g.directory != want {
		return &refusal{
			codeDirectory, fmt.Sprintf("node %d runs on another data directory (%v) than the cluster knows of it (%v)",
				g.node, g.directory, want),
		}
	}
	return nil
}

// maxFrame is the length of the longest frame.
const maxFrame = 1<<16 - 1

// Met is the answering node with its answer.
type Met struct {
	Node      session.Node
	Directory Directory
	Answer    []byte
}

// Meet sends request to the node at address and returns the node's answer. It works while either layer waits for
// admission. It ends at the deadline of ctx, and after Config.HandshakeTimeout at the latest.
func (l *Layer) Meet(ctx context.Context, address string, request []byte) (Met, error) {
	met, err := l.exchange(ctx, address, codeMeet, 0, request)
	if err != nil {
		return Met{}, fmt.Errorf("handshake with %s: %w", address, err)
	}
	return met, nil
}

// exchange greets the node at address with a code, sends it a frame and returns the frame of its answer. It ends at the
// deadline of ctx, and after Config.HandshakeTimeout at the latest.
func (l *Layer) exchange(ctx context.Context, address string, code byte, want Directory, request []byte) (Met, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.HandshakeTimeout)
	defer cancel()
	end, _ := ctx.Deadline()
	conn, theirs, err := l.introduce(ctx, address, code, want, time.Until(end))
	if err != nil {
		return Met{}, err
	}
	defer l.drop(conn)
	if err = conn.SetDeadline(end); err != nil {
		return Met{}, err
	}
	if err = writeFrame(conn, request); err != nil {
		return Met{}, err
	}
	answer, err := readFrame(conn)
	if err != nil {
		return Met{}, err
	}
	return Met{theirs.node, theirs.directory, answer}, nil
}

// errMet says that a connection has served an exchange of frames, and is not for Raft.
var errMet = errors.New("the nodes have met")

// serveExchange is the dialled side of an exchange. With a nil answer, the frame of the answer is empty.
func serveExchange(conn net.Conn, theirs greeting, answer func(session.Node, Directory, []byte) []byte) error {
	request, err := readFrame(conn)
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	var frame []byte
	if answer != nil {
		frame = answer(theirs.node, theirs.directory, request)
	}
	if err := writeFrame(conn, frame); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	return errMet
}

func writeFrame(w io.Writer, b []byte) error {
	if len(b) > maxFrame {
		return fmt.Errorf("frame of %d bytes, want at most %d", len(b), maxFrame)
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
	return err
}

func readFrame(r io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint16(length[:]))
	b, err := io.ReadAll(io.LimitReader(r, n)) // allocates no announced bytes before they arrive
	if err == nil && int64(len(b)) < n {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}
