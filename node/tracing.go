package node

import (
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/tracing"
	"holdfast/transport/tracing/otlp"
)

// traces are the spans of this node. The zero value makes none.
type traces struct {
	// tracer is nil on a node that traces nothing.
	tracer   *tracing.Tracer
	provider *otlp.Provider
}

// openTraces makes what traces as the settings say.
func openTraces(cfg *config.Config, o Options) (traces, error) {
	if cfg.Log.Tracing.Endpoint == "" && o.Platform.Spans == nil {
		return traces{}, nil
	}
	p, err := otlp.New(otlp.Config{
		Logger: o.Logger.Named("tracing"), Endpoint: cfg.Log.Tracing.Endpoint, CA: cfg.Log.Tracing.CA,
		SampleRatio: cfg.Log.Tracing.SampleRatio, Cluster: cfg.ClusterID, Node: cfg.Node, Version: o.Version,
		Exporter: o.Platform.Spans,
	})
	if err != nil {
		return traces{}, err
	}
	return traces{tracing.New(p), p}, nil
}

// close sends what is left.
func (t traces) close() {
	if t.provider != nil {
		t.provider.Close()
	}
}

// stats counts what became of the spans.
func (t traces) stats() otlp.Stats {
	if t.provider == nil {
		return otlp.Stats{}
	}
	return t.provider.Stats()
}

// service traces the requests of this node's clients.
func (t traces) service(s session.Service) session.Service { return t.tracer.Service(s) }
