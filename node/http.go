package node

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"holdfast/auth"
	"holdfast/transport/secure"
)

// httpTimeout bounds the reading of a request and the writing of its answer.
const httpTimeout = 10 * time.Second

// maxHeaderBytes bounds the headers of a request.
const maxHeaderBytes = 16 << 10

// newRegistry returns what /metrics exposes.
func newRegistry(n *Node) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCollector(n),
	)
	registry.MustRegister(n.options.timings.collectors()...)
	return registry
}

// newHTTP returns the server of /metrics and /healthz, and of the console in /ui/.
func newHTTP(n *Node, registry *prometheus.Registry) *http.Server {
	mux := http.NewServeMux()
	metrics := n.ports.access.Handler(auth.Reader, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /metrics", knownHosts(&n.cfg, metrics))
	mux.HandleFunc("GET /healthz", n.healthz)
	if c := n.ports.console; c != nil {
		mux.Handle("/ui/", knownHosts(&n.cfg, n.ports.access.Browser(auth.Reader, c)))
		mux.Handle("GET /{$}", http.RedirectHandler("/ui/", http.StatusFound))
	}
	server := &http.Server{
		Handler:        mux,
		ReadTimeout:    httpTimeout,
		WriteTimeout:   httpTimeout,
		IdleTimeout:    httpTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ConnContext:    secure.HTTPContext,
		ErrorLog:       n.options.Logger.Named("http").StandardLogger(nil),
	}
	silent := &silentConns{all: make(map[net.Conn]struct{})}
	server.ConnState = silent.note
	server.RegisterOnShutdown(silent.end)
	if c := n.ports.console; c != nil {
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

// note is told each change of a connection.
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

// healthz answers 200 when the node serves, or 503 with the reason. A warning is on a second line.
func (n *Node) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err := n.health.check(); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "not serving: %v\n", err) //nolint:errcheck // the asker has gone away
		return
	}
	fmt.Fprintln(w, "ok") //nolint:errcheck // the asker has gone away
	if text := n.health.warning(); text != "" {
		fmt.Fprintf(w, "warning: %s\n", text) //nolint:errcheck // the asker has gone away
	}
}
