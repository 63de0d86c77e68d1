package raftnet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
)

func TestStrangersAreRefused(t *testing.T) {
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
					if _, err := conn.Write(bytesOf(t, tt.answer)); err != nil {
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

// TestAFloodOfStrangersDelaysNoNode: connections that say nothing evict each other, and a node's connections are
// answered at once.
func TestAFloodOfStrangersDelaysNoNode(t *testing.T) {
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

// A client that takes this port for an HTTP or gRPC port is told so: a reset connection would look like a busy node.
func TestHTTPIsToldThePort(t *testing.T) {
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
func bytesOf(t *testing.T, g greeting) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := g.write(&b); err != nil {
		t.Fatal(err)
	}
	if g.format != session.GreetingFormat {
		b.Truncate(b.Len() - 8)
	}
	return b.Bytes()
}

func TestGreetingBytes(t *testing.T) {
	var b bytes.Buffer
	g := greeting{format: 1, code: 0, node: 254, text: "holdfast", directory: 0x0102030405060708}
	if err := g.write(&b); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "HFRT\x01\x00\xfe\x08holdfast\x01\x02\x03\x04\x05\x06\x07\x08"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, err := readGreeting(&b); err != nil || got != g {
		t.Errorf("got %+v, %v", got, err)
	}
	long := greeting{format: session.GreetingFormat, text: strings.Repeat("x", 300)}
	if err := long.write(&b); err != nil || b.Len() != headBytes+maxText+8 {
		t.Errorf("a long text makes %d bytes, %v", b.Len(), err)
	}
}

// A node reads greetings of format 1. It refuses every other number, and both sides can say why.
func TestGreetingFormat(t *testing.T) {
	for format, accepted := range map[byte]bool{0: false, 1: true, 2: false} {
		head := string([]byte{'H', 'F', 'R', 'T', format, codeHello, 2, 1, 'c'})
		conn := &saying{in: strings.NewReader(head + "12345678")}
		l := New(Config{ClusterID: "c", Node: 1, Advertise: "a", Listener: pipes{}.listen("a")})
		_, err := l.answer(conn)
		if accepted {
			if err != nil {
				t.Errorf("format %d: %v", format, err)
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
