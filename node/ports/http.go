package ports

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"holdfast/auth"
	"holdfast/node/config"
	"holdfast/transport/secure"
)

// httpTimeout bounds the reading of a request and the writing of its answer.
const httpTimeout = 10 * time.Second

// maxHeaderBytes bounds the headers of a request.
const maxHeaderBytes = 16 << 10

// newHTTP returns the server of /metrics and /healthz, and of the console in /ui/.
func (p *Ports) newHTTP(s Services) *http.Server {
	mux := http.NewServeMux()
	settings, authorizer := &p.cfg.Settings, p.access.authorizer
	metrics := authorizer.Handler(auth.Reader, promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}))
	mux.Handle("GET /metrics", knownHosts(settings, metrics))
	mux.Handle("GET /healthz", healthPage{s.Health, s.HealthWarning})
	if c := p.console; c != nil {
		mux.Handle("/ui/", knownHosts(settings, authorizer.Browser(auth.Reader, c)))
		mux.Handle("GET /{$}", http.RedirectHandler("/ui/", http.StatusFound))
	}
	server := &http.Server{
		Handler:        mux,
		ReadTimeout:    httpTimeout,
		WriteTimeout:   httpTimeout,
		IdleTimeout:    httpTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ConnContext:    secure.HTTPContext,
		ErrorLog:       p.cfg.Logger.Named("http").StandardLogger(nil),
	}
	silent := &silentConns{all: make(map[net.Conn]struct{})}
	server.ConnState = silent.note
	server.RegisterOnShutdown(silent.end)
	if c := p.console; c != nil {
		server.RegisterOnShutdown(c.Stop)
	}
	return server
}

// silentConns are the connections on which nothing was asked for yet. Browsers keep some. A server that shuts down
// takes each for busy for 5 s. Safe for concurrent use.
type silentConns struct {
	mu     sync.Mutex
	all    map[net.Conn]struct{} // guarded by mu
	ending bool                  // guarded by mu
}

// note records a change of a connection. The server calls it for each.
func (s *silentConns) note(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state != http.StateNew {
		delete(s.all, c)
		return
	}
	if s.ending {
		_ = c.Close()
		return
	}
	s.all[c] = struct{}{}
}

// end closes the connections that are silent, or come from now on.
func (s *silentConns) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for c := range s.all {
		_ = c.Close()
	}
}

// healthPage answers 200 when the node serves, or 503 with the reason. A warning is on a second line.
type healthPage struct {
	check   func() error
	warning func() string
}

func (h healthPage) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err := h.check(); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "not serving: %v\n", err) //nolint:errcheck // the asker has gone away
		return
	}
	fmt.Fprintln(w, "ok") //nolint:errcheck // the asker has gone away
	if text := h.warning(); text != "" {
		fmt.Fprintf(w, "warning: %s\n", text) //nolint:errcheck // the asker has gone away
	}
}

// knownHosts passes on the requests of callers that know this node by an address or by a name that is its own. A foreign
// page may have its own name lead to this node (DNS rebinding). To the browser the node's pages are then that page's,
// whose script could act in the console and read the metrics where nobody has to say who they are.
func knownHosts(cfg *config.Config, next http.Handler) http.Handler {
	if cfg.Auth.On() {
		return next
	}
	var names []string
	for _, name := range cfg.Auth.Names() {
		names = append(names, plainHost(name))
	}
	if self, ok := cfg.Self(); ok {
		for _, address := range []string{self.Client, self.Raft, self.Peer} {
			names = append(names, plainHost(address))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := plainHost(r.Host)
		if foreign(host) && !slices.Contains(names, host) {
			http.Error(w, fmt.Sprintf("This node authenticates nobody (auth is none), and %q is no name of its own, so a "+
				"foreign page may have sent this request. Use an address, or add the name to http_allowed_hosts, or set auth.", host),
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// plainHost returns the host of an address, in small letters and without a port.
func plainHost(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// foreign reports whether a host can be a name of a stranger in the public DNS: it has a dot, and is no address.
func foreign(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	return strings.Contains(host, ".") && !strings.HasSuffix(host, ".localhost")
}
