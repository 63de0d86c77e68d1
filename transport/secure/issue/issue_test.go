package issue

import (
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/transport/secure"
)

// A certificate has no host that no client can ask for, such as one with a port.
func TestHostsOfACertificate(t *testing.T) {
	ca, err := NewCA("test", Span{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", maxDNSLabel)
	for host, good := range map[string]bool{
		"n1": true, "n1.example.com": true, "N-1.Example.com": true, "*.example.com": true, "node_1": true, "7": true,
		"10.0.0.1": true, "::1": true, "[fd00::1]": true, long + ".com": true, "xn--bcher-kva.example": true,
		"": false, " n1": false, "n1:7400": false, "10.0.0.1:7400": false, "[::1]:7400": false, "http://n4": false,
		"n1.": false, ".n1": false, "a..b": false, "*": false, "*.": false, "n*.example.com": false, "a.*.com": false,
		"-n1": false, "n1-": false, "bücher.example": false, "n1/x": false, "10.0.0.256": false, "10.0.0": false,
		"[n1]": false, "[10.0.0.1]": false, "[::1": false, "::1]": false, "fe80::1%eth0": false, long + "a": false,
		strings.Repeat("a.", maxDNSName/2) + "com": false,
	} {
		made, err := ca.Issue(secure.NodeName("test", 1), []string{"localhost", host},
			Span{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Minute)})
		if !good {
			if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "host" {
				t.Errorf("%q: got %v, want a refusal of the host", host, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", host, err)
			continue
		}
		asked := strings.Replace(host, "*", "any", 1)
		if failed := made.Certificate.VerifyHostname(asked); failed != nil {
			t.Errorf("%q: a client that asks for %q refuses the certificate: %v", host, asked, failed)
		}
	}
}
