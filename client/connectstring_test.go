package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast/session"
)

func TestParseConnectString(t *testing.T) {
	tests := []struct {
		in      string
		servers []string
		chroot  string
		only    bool
		says    string // part of the error
	}{
		{in: "h1:7400", servers: []string{"h1:7400"}},
		{in: "h1,h2:9, H3 ", servers: []string{"h1:7400", "h2:9", "h3:7400"}},
		{in: "10.0.0.1:1,[::1]:2,[2001:DB8::7]", servers: []string{"10.0.0.1:1", "[::1]:2", "[2001:db8::7]:7400"}},
		{in: "[fe80::1%eth0.7],[fe80::1%2]:1", servers: []string{"[fe80::1%eth0.7]:7400", "[fe80::1%2]:1"}},
		{in: "a_b.c-d.example.org.", servers: []string{"a_b.c-d.example.org.:7400"}},
		{in: "h/", servers: []string{"h:7400"}},
		{in: "h:7400,g/a/b", servers: []string{"h:7400", "g:7400"}, chroot: "/a/b"},
		{in: "h/ä b/..c", servers: []string{"h:7400"}, chroot: "/ä b/..c"},
		{in: "h?learn=off", servers: []string{"h:7400"}, only: true},
		{in: "h/a?learn=off", servers: []string{"h:7400"}, chroot: "/a", only: true},
		{in: "h,g/a?b?learn=on", servers: []string{"h:7400", "g:7400"}, chroot: "/a?b"},
		{in: "h?learn=maybe", says: "host name"},
		{in: "", says: "host name"},
		{in: "/a", says: "host name"},
		{in: "h,", says: "host name"},
		{in: "h,,g", says: "host name"},
		{in: "-h", says: "host name"},
		{in: "h..g", says: "host name"},
		{in: "h g", says: "host name"},
		{in: strings.Repeat("a", 64), says: "host name"},
		{in: strings.Repeat("a.", 127), says: "host name"},
		{in: "h:", says: "1 to 65535"},
		{in: "h:0", says: "1 to 65535"},
		{in: "h:080", says: "1 to 65535"},
		{in: "h:+1", says: "1 to 65535"},
		{in: "h:65536", says: "1 to 65535"},
		{in: "::1", says: "brackets"},
		{in: "[::1", says: "brackets"},
		{in: "[10.0.0.1]", says: "brackets"},
		{in: "[h]:1", says: "brackets"},
		{in: "[fe80::1%e[0]", says: "brackets"},
		{in: "[fe80::1%\x19]", says: "brackets"},
		{in: "[::1]7400", says: "host:port"},
		{in: "h,H:7400", says: "twice"},
		{in: "[::1],[0:0::1]", says: "twice"},
		{in: "h/a/", says: "slash"},
		{in: "h//", says: "slash"},
		{in: "h//a", says: "empty"},
		{in: "h/a/../b", says: `".."`},
		{in: "h/.", says: `"."`},
		{in: "h/a\x00", says: "U+0000"},
		{in: "h/a\u0085", says: "U+0085"},
		{in: "h/\uf000", says: "U+F000"},
		{in: "h/\uffff", says: "U+FFFF"},
		{in: "h/\xff", says: "UTF-8"},
		{in: "h/" + strings.Repeat("a", maxChroot), says: "4096"},
	}
	for _, tt := range tests {
		got, err := ParseConnectString(tt.in)
		if tt.says != "" {
			field, ok := errors.AsType[*session.FieldError](err)
			if !ok || !strings.Contains(field.Limit, tt.says) {
				t.Errorf("%q: got %+v, %v, want a FieldError that says %q", tt.in, got, err, tt.says)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Servers, tt.servers) || got.Chroot != tt.chroot || got.OnlyServers != tt.only {
			t.Errorf("%q: got %+v, %v", tt.in, got, err)
		}
	}
	many := make([]string, MaxServers+1)
	for i := range many {
		many[i] = fmt.Sprintf("h%d", i)
	}
	if _, err := ParseConnectString(strings.Join(many, ",")); err == nil {
		t.Errorf("a connect string of %d servers is accepted", len(many))
	}
	if c, err := ParseConnectString(strings.Join(many[1:], ",")); err != nil || len(c.Servers) != MaxServers {
		t.Errorf("%d servers: %v", MaxServers, err)
	}
}

// Lists of servers and connect strings have the same checks, but a list has no default port, spaces or chroot.
func TestEndpointsAreCheckedAsInAConnectString(t *testing.T) {
	cl, err := New(Config{Endpoints: []string{"a:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for in, says := range map[string]string{
		"h1:7400": "", "10.0.0.1:1": "", "[::1]:65535": "", "[fe80::1%eth0.7]:2": "", "a_b.c-d.Example.org.:7400": "",
		"":              "host name",
		":1":            "host name",
		" h:1":          "host name",
		"h":             "1 to 65535",
		"h:":            "1 to 65535",
		"h:0":           "1 to 65535",
		":0":            "host name",
		"h:99999":       "1 to 65535",
		"h:http":        "1 to 65535",
		"h:7400/app":    "1 to 65535",
		"[::1]":         "1 to 65535",
		"::1":           "brackets",
		"dns:///h:7400": "brackets",
	} {
		_, newErr := New(Config{Endpoints: []string{"first:1", in}})
		for call, err := range map[string]error{
			"New": newErr, "UpdateServers": cl.UpdateServers([]string{"first:1", in}),
		} {
			field, ok := errors.AsType[*session.FieldError](err)
			if ok != (says != "") || ok && (field.Field != "endpoints" || !strings.Contains(field.Limit, says)) {
				t.Errorf("%s with %q: got %v, want an error that says %q", call, in, err, says)
			}
		}
		if _, err := ParseConnectString(in); says == "" && err != nil {
			t.Errorf("%q in a connect string: %v", in, err)
		}
	}
	for _, twice := range [][]string{{"h:1", "h:1"}, {"h:1", "H:1"}, {"[::1]:1", "[0::1]:1"}} {
		if _, err := New(Config{Endpoints: twice}); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("New with %q: %v", twice, err)
		}
	}
}
