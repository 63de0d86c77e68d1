package client_test

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/fuzz/bound"
)

// A parsed connect string is written in one form, which parses to the same. Each of its servers can be dialled.
func FuzzParseConnectString(f *testing.F) {
	for _, s := range []string{
		"h1:7400,h2/a/b", "[::1]:2,[fe80::1%eth0]", "a,b,c", "h/", "::", "h:1/\x7f",
		strings.Repeat("a,", 500),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var c client.ConnectString
		var err error
		bound.Cost{PerByte: 256, Fixed: 64 << 10}.Hold(t, len(s), func() { c, err = client.ParseConnectString(s) })
		if err != nil {
			if !errors.Is(err, session.ErrInvalid) {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		for _, server := range c.Servers {
			if host, port, splitErr := net.SplitHostPort(server); splitErr != nil || host == "" || port == "" {
				t.Errorf("%q was read as the server %q", s, server)
			}
		}
		again, err := client.ParseConnectString(strings.Join(c.Servers, ",") + c.Chroot)
		if err != nil || !slices.Equal(again.Servers, c.Servers) || again.Chroot != c.Chroot {
			t.Errorf("%q was read as %+v, and written and read again as %+v, %v", s, c, again, err)
		}
	})
}
