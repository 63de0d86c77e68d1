package raftnet

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/test/bubble"
)

// dir returns the directory of the key that begins with a byte, followed by zeros.
func dir(key byte) Directory { return Key{key}.Directory() }

// meeting returns the layer of a node on a directory. It answers a meeting with what it heard.
func (p pipes) meeting(t *testing.T, address string, node session.Node, key byte, waits bool) *Layer {
	t.Helper()
	l := New(Config{
		ClusterID: "c", Node: node, Advertise: address, Listener: p.listen(address), Dial: p.dial, Key: Key{key},
		Waits: waits,
		Meet: func(from session.Node, on Directory, request []byte) []byte {
			return fmt.Appendf(nil, "%d on %v says %s", from, on, request)
		},
	})
	return l
}

// A layer that waits for admission keeps Raft's connections closed in both directions, and takes part in meetings.
func TestWaiting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a := network.meeting(t, "a", 1, 0xa, false)
		b := network.meeting(t, "b", 2, 0xb, true)
		accepted := accepting(b)
		accepting(a)
		if _, err := a.Dial("b", time.Second); err == nil || errors.Is(err, session.ErrWrongCluster) ||
			!strings.Contains(err.Error(), "waits for admission") {
			t.Errorf("a layer that waits is dialled: %v", err)
		}
		if _, err := b.Dial("a", time.Second); !errors.Is(err, errWaits) {
			t.Errorf("a layer that waits dials: %v", err)
		}
		met, err := b.Meet(t.Context(), "a", []byte("hello"))
		if err != nil || met.Node != 1 || met.Directory != dir(0xa) ||
			string(met.Answer) != "2 on "+dir(0xb).String()+" says hello" {
			t.Errorf("met %+v, %v", met, err)
		}
		if met, err = a.Meet(t.Context(), "b", nil); err != nil || met.Node != 2 || met.Directory != dir(0xb) ||
			string(met.Answer) != "1 on "+dir(0xa).String()+" says " {
			t.Errorf("met %+v, %v", met, err)
		}
		synctest.Wait()
		if len(accepted) != 0 {
			t.Error("a connection of a meeting, or of a refused node, was given to Raft")
		}
		b.Admit()
		conn, err := a.Dial("b", time.Second)
		if err != nil {
			t.Fatalf("after Admit: %v", err)
		}
		(<-accepted).Close()
		conn.Close()
		if _, err = a.Meet(t.Context(), "b", make([]byte, maxFrame+1)); err == nil {
			t.Error("a frame above the limit was sent")
		}
		synctest.Wait()
		if len(a.open)+len(b.open) != 0 {
			t.Error("connections of meetings are remembered")
		}
		closeAll(t, a, b)
	})
}

// Raft speaks to a node only on the directory that the address names.
func TestAnotherDirectoryIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a := network.meeting(t, "a", 1, 0xa, false)
		b := network.meeting(t, "b", 2, 0xb, false)
		stranger := network.meeting(t, "stranger", 2, 0xc, false)
		for _, l := range []*Layer{b, stranger} {
			accepting(l) // the layer closes the accepted connections
		}
		for address, ok := range map[raft.ServerAddress]bool{
			"b": true, At("b", dir(0xb)): true, At("b", dir(0xc)): false, "stranger": true, At("stranger", dir(0xc)): true,
			At("stranger", dir(0xb)): false, "b#zz": false,
		} {
			conn, err := a.Dial(address, time.Second)
			if (err == nil) != ok {
				t.Errorf("%s: %v, want %v", address, err, ok)
			}
			if err == nil {
				conn.Close()
			}
		}
		if len(a.open) != 0 {
			t.Error("refused connections are remembered")
		}
		closeAll(t, a, b, stranger)
	})
}

func TestAddressesThatNameADirectory(t *testing.T) {
	at := At("n3.peers:7401", 0xbeef)
	if at != "n3.peers:7401#000000000000beef" {
		t.Errorf("got %s", at)
	}
	if host, d, err := Split(at); host != "n3.peers:7401" || d != 0xbeef || err != nil {
		t.Errorf("got %s, %v, %v", host, d, err)
	}
	if host, d, err := Split("n3.peers:7401"); host != "n3.peers:7401" || d != 0 || err != nil {
		t.Errorf("got %s, %v, %v", host, d, err)
	}
	for _, bad := range []raft.ServerAddress{
		"a:1#", "a:1#beef", "a:1#0000000000000000", "a:1#000000000000000g",
		"a:1#000000000000beef0",
	} {
		if _, _, err := Split(bad); err == nil {
			t.Errorf("%s is accepted as an address", bad)
		}
	}
}

// A node that may be elsewhere is dialled there first, and then at Raft's address when another node, or none, is there.
func TestANodeThatMayBeElsewhere(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		var here, there, elsewhere string
		a := network.meeting(t, "a", 1, 0xa, false)
		a.cfg.Elsewhere = func(d Directory) string {
			if d != dir(0xb) {
				t.Errorf("asked for %v", d)
			}
			return elsewhere
		}
		for name, d := range map[string]byte{"b": 0xb, "moved": 0xb, "stray": 0xc} {
			l := network.meeting(t, name, 2, d, false)
			go func() {
				// The layer closes the accepted connections.
				for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
					go func() {
						if _, err := conn.Read(make([]byte, 1)); err == nil { // a dialler that refuses sends nothing
							there = name
						}
					}()
				}
			}()
			defer closeAll(t, l)
		}
		network.listen("silent")
		for _, tt := range []struct {
			here, elsewhere, there string
			takes                  time.Duration
		}{
			{"b", "", "b", 0},
			{"b", "b", "b", 0},
			{"b", "moved", "moved", 0},
			{"nowhere", "moved", "moved", 0},
			{"silent", "moved", "moved", 0},
			{"b", "nowhere", "b", 0},
			{"b", "stray", "b", 0},
			{"b", "silent", "b", time.Second},
			{"nowhere", "stray", "", 0},
			{"silent", "silent too", "", time.Second},
		} {
			here, elsewhere, there = tt.here, tt.elsewhere, ""
			begun := time.Now()
			conn, err := a.Dial(At(here, dir(0xb)), 2*time.Second)
			took := time.Since(begun)
			if err == nil {
				_, err = conn.Write([]byte{maxType})
			}
			if (err == nil) != (tt.there != "") || took != tt.takes {
				t.Errorf("%+v: %v after %v", tt, err, took)
			}
			if synctest.Wait(); there != tt.there {
				t.Errorf("%+v: reached %q", tt, there)
			}
			if err == nil {
				_ = conn.Close()
			}
		}
		elsewhere = "stray"
		if _, err := a.Dial(At("nowhere", dir(0xb)), time.Second); err == nil || !strings.Contains(err.Error(), "stray") ||
			!strings.Contains(err.Error(), "nowhere") {
			t.Errorf("dialling a node that is at neither address: %v", err)
		}
		elsewhere = "nowhere"
		if _, err := a.Dial(At("nowhere", dir(0xb)), time.Second); err == nil || strings.Count(err.Error(), "nowhere") != 1 {
			t.Errorf("the same address is tried twice: %v", err)
		}
		closeAll(t, a)
	})
}
