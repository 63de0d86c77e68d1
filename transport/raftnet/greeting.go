package raftnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"holdfast/session"
)

const (
	magic      = "HFRT"
	headBytes  = 8
	maxText    = 255
	codeHello  = 0
	codeOther  = 1
	codeFormat = 2
	codeNumber = 3
	codeWaits  = 4
	codeMeet   = 5
	// codeDirectory is the dialler's reason to refuse an answer. It is never sent.
	codeDirectory = 6
	codeSetting   = 7
	codeUnknown   = 8
	// codeAsk is a question of a voter to another (F1 the leader is found gone, F2 a majority confirms).
	codeAsk = 9
	// codeIdentity refuses a greeting whose number is not the one in the greeter's certificate.
	codeIdentity = 10
	// codeTLS refuses a greeting without TLS.
	codeTLS = 11
)

// errGarbage says that the other side does not speak this protocol at all.
var errGarbage = errors.New("not a raft connection of holdfast")

// errHTTP is the errGarbage of a client that expects an HTTP port: a browser, curl, or gRPC, which is HTTP/2.
var errHTTP = fmt.Errorf("%w, but HTTP", errGarbage)

// wrongPort is the answer to such a client, in HTTP/1.1. gRPC's clients then report an HTTP/1.1 header, and the command
// line names the right port. Without the answer they would see a reset connection, as from a busy node.
const wrongPort = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" +
	"This is the port at which nodes speak Raft. Clients use 7400 unless set otherwise.\n"

// maxHTTP bounds the bytes of an HTTP request that are read before the connection is closed.
const maxHTTP = 4096

// greeting is the first message of each side.
type greeting struct {
	format byte
	code   byte
	node   session.Node
	text   string
	// directory is the identity of the node's data directory. The second message of a side proves it.
	directory Directory
	// nonce is drawn for each connection.
	nonce [nonceBytes]byte
}

const (
	nonceBytes     = 32
	directoryBytes = 8
	positionBytes  = 16
)

// refuses reports whether the greeting is a refusal, which ends with its text.
func (g greeting) refuses() bool {
	return g.code != codeHello && g.code != codeMeet && g.code != codeAsk
}

func (g greeting) bytes() []byte {
	text := g.text[:min(len(g.text), maxText)]
	b := append([]byte(magic), g.format, g.code, byte(g.node), byte(len(text)))
	b = append(b, text...)
	if g.refuses() {
		return b
	}
	return append(binary.BigEndian.AppendUint64(b, uint64(g.directory)), g.nonce[:]...)
}

// readGreeting reads a greeting. Of another format it reads only head and text, which are the same in every format, so
// that both sides can report why they refuse each other.
func readGreeting(r io.Reader) (greeting, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:len(magic)]); err != nil {
		return greeting{}, fmt.Errorf("reading the greeting: %w", err)
	}
	switch string(head[:len(magic)]) {
	case magic:
	case "PRI ", "GET ", "HEAD", "POST":
		return greeting{}, errHTTP
	default:
		return greeting{}, errGarbage
	}
	if _, err := io.ReadFull(r, head[len(magic):]); err != nil {
		return greeting{}, fmt.Errorf("reading the greeting: %w", err)
	}
	text := make([]byte, head[7])
	if _, err := io.ReadFull(r, text); err != nil {
		return greeting{}, fmt.Errorf("reading the greeting: %w", err)
	}
	g := greeting{format: head[4], code: head[5], node: session.Node(head[6]), text: string(text)}
	if g.format != session.GreetingFormat || g.refuses() {
		return g, nil
	}
	var rest [directoryBytes + nonceBytes]byte
	if _, err := io.ReadFull(r, rest[:]); err != nil {
		return greeting{}, fmt.Errorf("reading the greeting: %w", err)
	}
	g.directory = Directory(binary.BigEndian.Uint64(rest[:]))
	copy(g.nonce[:], rest[directoryBytes:])
	return g, nil
}

// bytes are the part of the proof besides the greetings.
func (p Position) bytes() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, p.Term), p.Index)
}

// report returns the second message of a side, which the dialled side sends with its greeting: the known position of
// the other side's directory, and the proof of its own. said are the bytes of the greetings.
func (l *Layer) report(to Directory, side string, said []byte) []byte {
	var known Position
	if l.cfg.Known != nil {
		known = l.cfg.Known(to)
	}
	b := known.bytes()
	p := l.cfg.Key.prove(side, slices.Concat(said, b))
	return append(b, p[:]...)
}

// readReport reads the report of a node that has greeted from a directory, and checks its proof.
func readReport(r io.Reader, from Directory, side string, said []byte) (Position, error) {
	var b [positionBytes + proofBytes]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Position{}, fmt.Errorf("reading the proof of a directory: %w", err)
	}
	known := Position{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])}
	err := proof(b[positionBytes:]).check(from, side, slices.Concat(said, b[:positionBytes]))
	return known, err
}

// reportKnown passes another node's knowledge of this node's directory to Config.OnPosition, and returns its error.
func (l *Layer) reportKnown(from greeting, dialled bool, known Position) error {
	if l.cfg.OnPosition == nil || !known.sound() {
		return nil
	}
	return l.cfg.OnPosition(from.node, from.directory, dialled, known)
}

// refusal is the reason why a greeting is refused.
type refusal struct {
	code byte
	text string
}

func (r *refusal) Error() string { return r.text }

// Is makes a refusal a [session.ErrWrongCluster], unless the other side waits for admission, and a refusal for missing
// TLS a [session.ErrTLS].
func (r *refusal) Is(target error) bool {
	return target == session.ErrWrongCluster && r.code != codeWaits || target == session.ErrTLS && r.code == codeTLS
}

// check returns why a node with cfg refuses the other side's greeting g.
func (g greeting) check(cfg *Config) error {
	cluster, node := cfg.ClusterID, cfg.Node
	words := strings.Split(g.text, " ")
	if err := session.CheckFormat(fmt.Sprintf("node %d meets node %d, whose greeting on Raft's port", node, g.node),
		uint64(g.format), session.GreetingFormat, "run the same release on both nodes"); err != nil {
		return &refusal{codeFormat, err.Error()}
	}
	switch {
	case g.refuses():
		return &refusal{g.code, g.text}
	case words[0] != cluster:
		return &refusal{
			codeOther, fmt.Sprintf(
				"node %d is of cluster %q, node %d of cluster %q: check cluster_id and the addresses of peers", g.node,
				words[0], node, cluster,
			),
		}
	case !g.node.Valid() || g.node == node:
		return &refusal{
			codeNumber, fmt.Sprintf("node number %d meets node %d: numbers are 1 to %d and each is used once", g.node,
				node, session.MaxNode),
		}
	}
	if cfg.Member != nil && !cfg.Member(g.node) {
		return &refusal{
			codeUnknown, fmt.Sprintf(
				"node %d is not among node %d's peers, nor a member: make peers the same on every node, and restart "+
					"node %d", g.node, node, node,
			),
		}
	}
	if why := differs(words[1:], g.node, node, cfg.Settings); why != "" {
		return &refusal{codeSetting, why}
	}
	return nil
}
