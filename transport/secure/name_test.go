package secure_test

import (
	"crypto/x509"
	"net/url"
	"strings"
	"testing"

	"holdfast/transport/secure"
)

// certificateOf returns a certificate with URIs.
func certificateOf(t *testing.T, uris ...string) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		c.URIs = append(c.URIs, u)
	}
	return c
}

// A certificate names one owner, in one form.
func TestNames(t *testing.T) {
	for text, want := range map[string]secure.Name{
		"holdfast://prod/node/3":                            {Cluster: "prod", Kind: "node", Name: "3"},
		"holdfast://prod/client/ann@x.org":                  {Cluster: "prod", Kind: "client", Name: "ann@x.org"},
		"spiffe://prod/node/3":                              {},
		"holdfast://prod/node/03":                           {},
		"holdfast://prod/node/255":                          {},
		"holdfast://prod/node/0":                            {},
		"holdfast://prod/nodes/3":                           {},
		"holdfast://prod/node/3/4":                          {},
		"holdfast://prod/node/3?x":                          {},
		"holdfast://prod/node/3#x":                          {},
		"holdfast://u@prod/node/3":                          {},
		"holdfast://prod:80/node/3":                         {},
		"holdfast:///node/3":                                {},
		"holdfast://prod/client/":                           {},
		"holdfast://prod/client/a%2fb":                      {},
		"holdfast://prod/admin/\u00e4dmin":                  {},
		"HOLDFAST://prod/node/3":                            {Cluster: "prod", Kind: "node", Name: "3"},
		"holdfast://prod/client/a/../../b":                  {},
		"holdfast://prod/client/" + strings.Repeat("x", 65): {},
	} {
		got, err := secure.NameOf(certificateOf(t, text))
		if got != want || (err == nil) == (want == secure.Name{}) && !strings.HasPrefix(text, "spiffe") {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
	if _, err := secure.NameOf(certificateOf(t, "holdfast://a/node/1", "holdfast://a/node/2")); err == nil {
		t.Error("two names are one")
	}
	for cluster, want := range map[string]bool{
		"a": true, "a.b": true, ".a": false, "a.": false, "a..b": false, "": false,
	} {
		if got := secure.ValidCluster(cluster); got != want {
			t.Errorf("cluster %q: %v, want %v", cluster, got, want)
		}
	}
}

// What a certificate names is read in one way: a name that is accepted is written as it was read.
func FuzzNameOf(f *testing.F) {
	f.Add("holdfast://prod/node/3")
	f.Add("holdfast://prod/client/a%2fb")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		n, err := secure.NameOf(&x509.Certificate{URIs: []*url.URL{u}})
		if err != nil || n == (secure.Name{}) {
			return
		}
		if n.Check() != nil || n.URI().String() != u.String() {
			t.Errorf("%q is taken for %+v", text, n)
		}
	})
}
