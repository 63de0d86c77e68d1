package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestParsePeers(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Peer
	}{
		{"1=n1", Peer{1, "n1:7401", "n1:7402", "n1:7400"}},
		{"2=n2:1", Peer{2, "n2:1", "n2:7402", "n2:7400"}},
		{"3=n3:1:2", Peer{3, "n3:1", "n3:2", "n3:7400"}},
		{"254=n3:1:2@h:9", Peer{254, "n3:1", "n3:2", "h:9"}},
		{"4=n4@h:9", Peer{4, "n4:7401", "n4:7402", "h:9"}},
		{"5=[::1]:1:2@[::2]:9", Peer{5, "[::1]:1", "[::1]:2", "[::2]:9"}},
		{"6=[::1]", Peer{6, "[::1]:7401", "[::1]:7402", "[::1]:7400"}},
		{" 7=n7 ", Peer{7, "n7:7401", "n7:7402", "n7:7400"}},
	} {
		got, err := ParsePeers(tt.in)
		if err != nil || !reflect.DeepEqual(got, []Peer{tt.want}) {
			t.Errorf("%s: got %v, %v, want %v", tt.in, got, err, tt.want)
		}
		again, err := ParsePeers(FormatPeers(got))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%s: written %s, read again as %v, %v", tt.in, FormatPeers(got), again, err)
		}
	}
}

func TestParsePeersRefuses(t *testing.T) {
	for _, in := range []string{
		"", "n1", "=n1", "0=n1", "255=n1", "a=n1", "1=", "1=:7401", "1=n1:1:2:3", "1=[::1",
		"1=[::1]7", "1=n1,", "1=n1,,2=n2", "1=2001:db8::1",
	} {
		if got, err := ParsePeers(in); err == nil || !strings.Contains(err.Error(), "must be NODE=HOST") ||
			!strings.Contains(err.Error(), "brackets as in 1=[2001:db8::1]") {
			t.Errorf("%q: got %v, %v, want a refusal that says how peers are written", in, got, err)
		}
	}
}

func TestParsePeersNamesAllProblems(t *testing.T) {
	_, err := ParsePeers("1=a,2=,3=c:99999,1=d,x")
	for _, want := range []string{`"2="`, `"x"`, "c:99999", "node 1 is named twice"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
}
