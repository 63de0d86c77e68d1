package node

import (
	"fmt"
	"net/http"
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

// newHTTP returns the server of /metrics and /healthz.
func newHTTP(n *Node) *http.Server {
	registry := newRegistry(n)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", n.ports.access.Handler(auth.Reader, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
	mux.HandleFunc("GET /healthz", n.healthz)
	return &http.Server{
		Handler:        mux,
		ReadTimeout:    httpTimeout,
		WriteTimeout:   httpTimeout,
		IdleTimeout:    httpTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ConnContext:    secure.HTTPContext,
		ErrorLog:       n.options.Logger.Named("http").StandardLogger(nil),
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
