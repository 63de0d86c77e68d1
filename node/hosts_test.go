package node

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"holdfast/node/ports"
	"holdfast/test/bubble"
)

// plainConsole answers every request.
type plainConsole struct{}

func (plainConsole) Run(context.Context) error { return nil }
func (plainConsole) Stop()                     {}

func (plainConsole) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "console")
}

// The HTTP port of a node refuses names that are not its own, for all but its health, which probes ask for.
func TestPagesAreServedUnderKnownHosts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 1, nil)
		defer c.stop()
		n := c.leader(within)
		if err := c.end(n); err != nil {
			t.Fatal(err)
		}
		c.console = func(ports.ConsoleHost) ports.Console { return plainConsole{} }
		c.start(n)
		c.leader(within)
		h := &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return c.Host("browser").Dial(ctx, n.name+":7403")
			},
			DisableKeepAlives: true,
		}}
		for url, want := range map[string]int{
			"http://n1:7403/ui/": http.StatusOK, "http://strange.test:7403/ui/": http.StatusMisdirectedRequest,
			"http://n1:7403/metrics": http.StatusOK, "http://strange.test:7403/metrics": http.StatusMisdirectedRequest,
			"http://strange.test:7403/healthz": http.StatusOK,
		} {
			r, err := h.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			if _ = r.Body.Close(); r.StatusCode != want {
				t.Errorf("%s: %s, want %d", url, r.Status, want)
			}
		}
	})
}
