package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestP1SuperDigest: a digest that nobody can have is refused, so that an operator who sets a password in its place
// hears of it.
func TestP1SuperDigest(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "super:lK75jTNcA+U9vtVEw5vB51mj/w4=": true,
		"super": false, "super:secret": false, ":lK75jTNcA+U9vtVEw5vB51mj/w4=": false, "super:bGs=": false, ":": false,
	} {
		_, err := load(t, "node: 1\ndata_dir: d\npeers: "+threePeers+"\nsuper_digest: \""+text+"\"\n", nil)
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "super_digest") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// No flag has a secret: whoever may list the processes of a machine sees their flags.
func TestSecretsHaveNoFlags(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	RegisterFlags(fs)
	for _, s := range settings() {
		if s.secret != (s.name == "super_digest") || s.secret == (fs.Lookup(s.flag()) != nil) {
			t.Errorf("%s: is secret %v, and has the flag %v", s.name, s.secret, fs.Lookup(s.flag()))
		}
	}
}
