package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Each setting is shown with where its value comes from, and no secret is.
func TestShown(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	RegisterFlags(fs)
	const secret = "lK75jTNcA+U9vtVEw5vB51mj/w4="
	flags := []string{
		"--node=1", "--auth=none", "--data-dir=d", "--peers=" + threePeers,
	}
	if err := fs.Parse(flags); err != nil {
		t.Fatal(err)
	}
	environ := []string{"HOLDFAST_MIN_TIMEOUT=5s", "HOLDFAST_SUPER_DIGEST=root:" + secret}
	c, err := Load(fs, environ)
	if err != nil {
		t.Fatal(err)
	}
	c.Log.Level = "debug" // as a program may set it
	want := map[string]string{
		"node": "flag --node", "min_timeout": "environment HOLDFAST_MIN_TIMEOUT", "max_timeout": "default",
		"log_level": "program", "super_digest": "environment HOLDFAST_SUPER_DIGEST", "stall_timeout": "default",
	}
	for _, s := range c.Shown(Origins(fs, environ)) {
		if origin, ok := want[s.Name]; ok && s.Origin != origin {
			t.Errorf("%s: %q comes from %s, want %s", s.Name, s.Value, s.Origin, origin)
		}
		delete(want, s.Name)
		if strings.Contains(s.Value, secret) {
			t.Errorf("%s shows a secret", s.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not shown: %v", want)
	}
}
