package node

import (
	"holdfast/leader"
	"holdfast/learner"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/peerport"
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
	if cfg.Log.Tracing.Endpoint == "" && o.Spans == nil {
		return traces{}, nil
	}
	p, err := otlp.New(otlp.Config{
		Logger: o.Logger.Named("tracing"), Endpoint: cfg.Log.Tracing.Endpoint, CA: cfg.Log.Tracing.CA,
		SampleRatio: cfg.Log.Tracing.SampleRatio, Cluster: cfg.ClusterID, Node: cfg.Node, Version: o.Version,
		Exporter: o.Spans,
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

// toLeader traces what a link to a leader carries.
func (t traces) toLeader(l Link) Link {
	if t.tracer == nil {
		return l
	}
	return tracedLink{t.tracer.ToLeader(l), l, t.tracer}
}

// tracedLink is a traced link to a leader, with the writes that go there.
type tracedLink struct {
	tracing.Link
	of     Link
	tracer *tracing.Tracer
}

// Forward opens a stream of writes.
func (l tracedLink) Forward() (learner.ForwardLink, error) {
	link, err := l.of.Forward()
	if err != nil {
		return nil, err
	}
	return l.tracer.Writes(link), nil
}

// The ends of a leader's streams.
func (t traces) fromNode(l peerport.LeaderLink) leader.Link { return t.tracer.FromNode(l) }

func (t traces) fromWriter(l peerport.ForwardLink) leader.ForwardLink { return t.tracer.FromWriter(l) }

func (t traces) service(s session.Service) session.Service { return t.tracer.Service(s) }
