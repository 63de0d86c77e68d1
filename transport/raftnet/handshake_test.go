package raftnet

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
)

func TestUnknownNodesAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		cluster string
		node    session.Node
		words   string
	}{
		"another cluster": {"other", 2, `node 2 is of cluster "other", node 1 of cluster "c"`},
		"the same number": {"c", 1, "node number 1 meets node 1"},
		"no node":         {"c", 99, "node 99 is not among node 1's peers, nor a member"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				network := pipes{}
				a, aLog := network.layer(t, "a", "c", 1)
				a.cfg.Member = func(n session.Node) bool { return n <= 3 }
				b, bLog := network.layer(t, "b", tt.cluster, tt.node)
				accepted := accepting(a)
				for range 3 {
					if _, err := b.Dial("a", time.Second); !errors.Is(err, session.ErrWrongCluster) ||
						!strings.Contains(err.Error(), tt.words) {
						t.Errorf("Dial: %v", err)
					}
				}
				synctest.Wait()
				if len(accepted) != 0 {
					t.Error("a stranger was accepted")
				}
				for side, log := range map[string]*porttest.LogBuffer{"the dialled": aLog, "the dialler": bLog} {
					if got := strings.Count(log.String(), "[WARN]"); got != 1 ||
						!strings.Contains(log.String(), "raft peer refused") {
						t.Errorf("%s logs %d reasons for 3 refusals, want 1:\n%s", side, got, log)
					}
				}
				closeAll(t, a, b)
			})
		})
	}
}

// TestAnswersAreChecked: a dialler refuses the answer of a node that accepts any greeting, as a node of another cluster
// might by a fault.
func TestAnswersAreChecked(t *testing.T) {
	for name, tt := range map[string]struct {
		answer greeting
		words  string
	}{
		"another cluster": {greeting{format: session.GreetingFormat, node: 2, text: "other"}, `cluster "other"`},
		"format 0":        {greeting{format: 0, node: 2, text: "c"}, "greeting on Raft's port has format 0, and this"},
		"format 2":        {greeting{format: 2, node: 2, text: "c"}, "greeting on Raft's port has format 2, and this"},
		"no number":       {greeting{format: session.GreetingFormat, text: "c"}, "node number 0"},
		"no node":         {greeting{format: session.GreetingFormat, node: 99, text: "c"}, "node 99 is not among node 1's peers"},
		"a question": {
			greeting{format: session.GreetingFormat, code: codeAsk, node: 2, text: "c"}, "answers a greeting with code 9",
		},
		"a refusal": {greeting{format: session.GreetingFormat, code: codeOther, node: 2, text: "go away"}, "go away"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				network := pipes{}
				a, _ := network.layer(t, "a", "c", 1)
				a.cfg.Member = func(n session.Node) bool { return n <= 3 }
				l := network.listen("b")
				go func() {
					conn := <-l.conns
					defer conn.Close()
					if _, err := readGreeting(conn); err != nil {
						t.Errorf("greeting: %v", err)
					}
					if _, err := conn.Write(bytesOf(tt.answer)); err != nil {
						t.Errorf("answering: %v", err)
					}
				}()
				if _, err := a.Dial("b", time.Second); !errors.Is(err, session.ErrWrongCluster) ||
					!strings.Contains(err.Error(), tt.words) {
					t.Errorf("Dial: %v", err)
				}
				closeAll(t, a)
			})
		})
	}
}

// TestAFloodOfUnknownCallersDelaysNoNode: connections that say nothing evict each other, and a node's connections are
// answered at once.
func TestAFloodOfUnknownCallersDelaysNoNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "a", "c", 1)
		b, log := network.layer(t, "b", "c", 2)
		accepted := accepting(b)
		begun := time.Now()
		var silent []net.Conn
		for range 10 {
			for range maxHandshakes {
				conn, err := network.dial(t.Context(), "b")
				if err != nil {
					t.Fatal(err)
				}
				silent = append(silent, conn)
			}
			conn, err := a.Dial("b", time.Second)
			if err != nil || time.Since(begun) != 0 {
				t.Errorf("Dial beside silent diallers: %v after %v", err, time.Since(begun))
				break
			}
			(<-accepted).Close()
			conn.Close()
		}
		synctest.Wait()
		if got := b.handshakes.len(); got > maxHandshakes {
			t.Errorf("%d handshakes, want at most %d", got, maxHandshakes)
		}
		if got := strings.Count(log.String(), "too many handshakes"); got != 1 {
			t.Errorf("the reason is logged %d times, want once:\n%s", got, log)
		}
		// The silent connections are closed and forgotten.
		for _, s := range silent {
			if _, err := s.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("a silent dialler read %v, want io.EOF", err)
			}
		}
		if got := time.Since(begun); got != defaultTimeout {
			t.Errorf("closed after %v, want %v", got, defaultTimeout)
		}
		synctest.Wait()
		if b.handshakes.len() != 0 || len(b.open) != 0 {
			t.Errorf("%d handshakes and %d connections are remembered", b.handshakes.len(), len(b.open))
		}
		closeAll(t, a, b)
	})
}

func TestGarbageIsClosed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		b, log := network.layer(t, "b", "c", 2)
		accepted := accepting(b)
		for _, garbage := range []string{"", "HFRT", "HFRT\x01\x00\x01\xffc", strings.Repeat("\xff", 1000)} {
			conn, err := network.dial(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write([]byte(garbage))
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("%.10q was answered", garbage)
			}
			conn.Close()
		}
		synctest.Wait()
		if len(accepted) != 0 || len(b.open) != 0 {
			t.Error("garbage was accepted, or is remembered")
		}
		if got := log.String(); strings.Contains(got, "[WARN]") || strings.Contains(got, "[ERROR]") ||
			strings.Count(got, "[DEBUG]") != 4 {
			t.Errorf("garbage is logged as\n%s", got)
		}
		closeAll(t, b)
	})
}

// A client that mistakes this port for an HTTP or gRPC port gets an answer that says so: a reset connection would look
// like a busy node.
func TestHTTPGetsAnAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		b, _ := network.layer(t, "b", "c", 2)
		accepted := accepting(b)
		for _, request := range []string{"GET /metrics HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"} {
			conn, err := network.dial(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = conn.Write([]byte(request)) }() // the port may close before the end of the request
			answer, err := io.ReadAll(conn)
			if !strings.HasPrefix(string(answer), "HTTP/1.1 400 Bad Request\r\n") ||
				!strings.Contains(string(answer), "Clients use 7400") {
				t.Errorf("%.5q was answered %q, %v", request, answer, err)
			}
			conn.Close()
		}
		synctest.Wait()
		if len(accepted) != 0 || len(b.open) != 0 {
			t.Error("a stranger was accepted, or is remembered")
		}
		closeAll(t, b)
	})
}

// bytesOf returns what a node sends as g. A greeting of another format ends with its text here.
func bytesOf(g greeting) []byte {
	b := g.bytes()
	if g.format != session.GreetingFormat && !g.refuses() {
		b = b[:len(b)-directoryBytes-nonceBytes]
	}
	return b
}

func TestGreetingBytes(t *testing.T) {
	g := greeting{
		format: 1, code: 0, node: 254, text: "holdfast", directory: 0x0102030405060708, nonce: [nonceBytes]byte{9, 31: 7},
	}
	want := "HFRT\x01\x00\xfe\x08holdfast\x01\x02\x03\x04\x05\x06\x07\x08\x09" + strings.Repeat("\x00", 30) + "\x07"
	if got := string(g.bytes()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, err := readGreeting(bytes.NewReader(g.bytes())); err != nil || got != g {
		t.Errorf("got %+v, %v", got, err)
	}
	no := greeting{format: 1, code: codeNumber, node: 254, text: "no"}
	if got := string(no.bytes()); got != "HFRT\x01\x03\xfe\x02no" {
		t.Errorf("a refusal is %q", got)
	}
	if got, err := readGreeting(bytes.NewReader(no.bytes())); err != nil || got != no {
		t.Errorf("got %+v, %v", got, err)
	}
	long := greeting{format: session.GreetingFormat, text: strings.Repeat("x", 300)}
	if got := len(long.bytes()); got != headBytes+maxText+directoryBytes+nonceBytes {
		t.Errorf("a long text makes %d bytes", got)
	}
}

// The proof of a directory is 112 bytes: what the sender knows of the other directory, the public half of its own key,
// and a signature.
func TestReportBytes(t *testing.T) {
	key := Key{1, 2, 3}
	l := New(Config{Key: key, Listener: pipes{}.listen("a"), Known: func(d Directory) Position {
		if d != 0xbeef {
			t.Errorf("asked for %v", d)
		}
		return Position{7, 102}
	}})
	got := l.report(0xbeef, sideDialled, []byte("said"))
	const want = "00000000000000070000000000000066" + "221fe5f6859a1a4fec79057c9d32c8d3fc356e144b1da3b0f9016ef6f29888da" +
		"6accbaa32105ac565cc2ce8196922cca3fd044e88936b1d6d041d29eac1453a9" +
		"04e7b4b0b69b283a32ec694840070b2f04f65115c452abda6847b71c0c178f08"
	if hex.EncodeToString(got) != want {
		t.Errorf("got %x, want %s", got, want)
	}
	if known, err := readReport(bytes.NewReader(got), key.Directory(), sideDialled, []byte("said")); err != nil ||
		known != (Position{7, 102}) {
		t.Errorf("read as %v, %v", known, err)
	}
	for name, read := range map[string]func() error{
		"of another directory": func() error {
			_, err := readReport(bytes.NewReader(got), 0xbeef, sideDialled, []byte("said"))
			return err
		},
		"of the other side": func() error {
			_, err := readReport(bytes.NewReader(got), key.Directory(), sideDialler, []byte("said"))
			return err
		},
		"of another connection": func() error {
			_, err := readReport(bytes.NewReader(got), key.Directory(), sideDialled, []byte("paid"))
			return err
		},
		"with another position": func() error {
			other := bytes.Clone(got)
			other[15]++
			_, err := readReport(bytes.NewReader(other), key.Directory(), sideDialled, []byte("said"))
			return err
		},
	} {
		if err := read(); !errors.Is(err, errUnproven) {
			t.Errorf("a proof %s is taken: %v", name, err)
		}
	}
}

// An attacker knows the directory of a member, but not its key: neither side accepts it as the member. What it has seen
// on one connection does not help it on another.
func TestADirectoryIsProven(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		b := network.meeting(t, "b", 2, 0xb, false)
		accepted := accepting(b)
		member := network.meeting(t, "a", 1, 0xa, false)
		accepting(member)
		stranger := network.meeting(t, "stranger", 1, 0xc, false)
		stranger.directory = dir(0xa)
		if _, err := stranger.Meet(t.Context(), "b", nil); err == nil {
			t.Error("a stranger met a node as another one's directory")
		}
		if _, err := b.Dial(At("stranger", dir(0xa)), time.Second); err == nil {
			t.Error("a stranger was dialled as a member")
		}
		accepting(stranger)
		if _, err := b.Dial(At("stranger", dir(0xa)), time.Second); !errors.Is(err, errUnproven) {
			t.Errorf("a stranger was dialled as a member: %v", err)
		}
		// The stranger repeats all that a member has said to b.
		recorded := &bytes.Buffer{}
		member.cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := network.dial(ctx, address)
			return &recording{conn, recorded}, err
		}
		conn, err := member.Dial("b", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		(<-accepted).Close()
		conn.Close()
		raw, err := network.dial(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.SetDeadline(time.Now().Add(time.Minute)); err != nil { // a node that accepts it waits for more
			t.Fatal(err)
		}
		go func() { _, _ = raw.Write(recorded.Bytes()) }() // b closes before the end
		_, _ = io.Copy(io.Discard, raw)
		raw.Close()
		synctest.Wait()
		if len(accepted) != 0 {
			t.Error("a stranger was accepted with what a member has said before")
		}
		closeAll(t, b, member, stranger)
	})
}

// recording notes what is written.
type recording struct {
	net.Conn
	said *bytes.Buffer
}

func (r *recording) Write(b []byte) (int, error) {
	r.said.Write(b)
	return r.Conn.Write(b)
}

// Each side sends its knowledge of the other's directory, and a node that is an older copy (J6 rolled-back directories)
// according to the other refuses the connection, on either side and for whatever the connection is.
func TestEachSideSendsItsKnowledge(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a := network.meeting(t, "a", 1, 0xa, false)
		b := network.meeting(t, "b", 2, 0xb, false)
		accepted := accepting(b)
		accepting(a)
		type report struct {
			from    session.Node
			on      Directory
			dialled bool
			known   Position
		}
		var mu sync.Mutex // guards told and old: each side has its goroutine
		told := map[session.Node][]report{}
		var old error
		heard := func(by session.Node) []report {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return told[by]
		}
		for _, l := range []*Layer{a, b} {
			l.cfg.Known = func(d Directory) Position { return Position{uint64(l.cfg.Node), uint64(d) >> 8} }
			l.cfg.OnPosition = func(node session.Node, d Directory, dialled bool, known Position) error {
				mu.Lock()
				defer mu.Unlock()
				told[l.cfg.Node] = append(told[l.cfg.Node], report{node, d, dialled, known})
				if l == b {
					return old
				}
				return nil
			}
		}
		conn, err := a.Dial("b", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		(<-accepted).Close()
		conn.Close()
		if got, want := heard(1), (report{2, dir(0xb), true, Position{2, uint64(dir(0xa)) >> 8}}); len(got) != 1 || got[0] != want {
			t.Errorf("the dialler is told %+v, want %+v", got, want)
		}
		if got, want := heard(2), (report{1, dir(0xa), false, Position{1, uint64(dir(0xb)) >> 8}}); len(got) != 1 || got[0] != want {
			t.Errorf("the dialled is told %+v, want %+v", got, want)
		}
		mu.Lock()
		old = errors.New("an older copy")
		mu.Unlock()
		if conn, err := a.Dial("b", time.Second); err == nil {
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("an older copy goes on: %v", err)
			}
			conn.Close()
		}
		if _, err := a.Meet(t.Context(), "b", nil); err == nil {
			t.Error("an older copy answers a meeting")
		}
		if _, err := b.Meet(t.Context(), "a", nil); !errors.Is(err, old) {
			t.Errorf("an older copy meets: %v", err)
		}
		if len(accepted) != 0 {
			t.Error("an older copy has given Raft a connection")
		}
		// An absurd position is none.
		heard(2) // nobody speaks any more
		mu.Lock()
		told = map[session.Node][]report{}
		mu.Unlock()
		a.cfg.Known = func(Directory) Position { return Position{FarTerm + 1, 1} }
		if _, err := a.Meet(t.Context(), "b", nil); err != nil || len(heard(2)) != 0 {
			t.Errorf("an absurd position: %v, told %+v", err, heard(2))
		}
		closeAll(t, a, b)
	})
}

func TestPositions(t *testing.T) {
	for _, tt := range []struct {
		p, q   Position
		behind bool
	}{
		{Position{}, Position{}, false},
		{Position{1, 5}, Position{1, 5}, false},
		{Position{1, 4}, Position{1, 5}, true},
		{Position{1, 9}, Position{2, 5}, true},
		{Position{2, 5}, Position{1, 9}, false}, // a leader of term 2 may have cut off what was acknowledged in term 1
	} {
		if tt.p.Behind(tt.q) != tt.behind {
			t.Errorf("%v behind %v: %v", tt.p, tt.q, !tt.behind)
		}
	}
}

// A node reads greetings of format 1. It refuses every other number, and both sides can say why.
func TestGreetingFormat(t *testing.T) {
	for format, accepted := range map[byte]bool{0: false, 1: true, 2: false} {
		head := string([]byte{'H', 'F', 'R', 'T', format, codeHello, 2, 1, 'c'})
		conn := &saying{in: strings.NewReader(head + strings.Repeat("x", directoryBytes+nonceBytes))}
		l := New(Config{ClusterID: "c", Node: 1, Advertise: "a", Listener: pipes{}.listen("a")})
		_, err := l.answer(conn)
		if accepted {
			if answer, readErr := readGreeting(&conn.out); readErr != nil || answer.code != codeHello || err == nil {
				t.Errorf("format %d: answered with %+v, %v; and without a proof %v", format, answer, readErr, err)
			}
			continue
		}
		want := fmt.Sprintf("node 1 meets node 2, whose greeting on Raft's port has format %d, and this program reads "+
			"format 1: run the same release on both nodes", format)
		if err == nil || err.Error() != want || !errors.Is(err, session.ErrWrongCluster) {
			t.Errorf("format %d: %v, want %q", format, err, want)
		}
		answer, err := readGreeting(&conn.out)
		if err != nil || answer.format != 1 || answer.code != codeFormat || answer.text != want {
			t.Errorf("format %d was answered with %+v, %v", format, answer, err)
		}
	}
}
