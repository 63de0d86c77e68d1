package whole_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"holdfast/client"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/whole"
)

// spans are those of three nodes.
type spans struct {
	t  *testing.T
	of [3]*tracetest.InMemoryExporter
}

// span is a span with the node that made it.
type span struct {
	tracetest.SpanStub
	node int
}

func newSpans() *spans {
	s := &spans{}
	for i := range s.of {
		s.of[i] = tracetest.NewInMemoryExporter()
	}
	return s
}

func (s *spans) exporter(of session.Node) sdktrace.SpanExporter { return s.of[of-1] }

// all returns all spans once the batches of all nodes have gone out.
func (s *spans) all() (all []span) {
	time.Sleep(6 * time.Second) // of virtual time: a batch goes out every 5 s
	for i, e := range s.of {
		for _, one := range e.GetSpans() {
			all = append(all, span{one, i + 1})
		}
	}
	return all
}

// trace returns the spans of the only trace whose first span has a name, by their names.
func (s *spans) trace(first string) map[string][]span {
	s.t.Helper()
	all := s.all()
	found := map[string][]span{}
	for _, root := range all {
		if root.Name != first {
			continue
		}
		if len(found) > 0 {
			s.t.Fatalf("two traces begin with %s", first)
		}
		for _, one := range all {
			if one.SpanContext.TraceID() == root.SpanContext.TraceID() {
				found[one.Name] = append(found[one.Name], one)
			}
		}
	}
	return found
}

// below checks that each span of a name is a child of the only span of another.
func (s *spans) below(in map[string][]span, parent, child string, count int) {
	s.t.Helper()
	if len(in[parent]) != 1 || len(in[child]) != count {
		s.t.Errorf("%d spans %s and %d %s, want 1 and %d", len(in[parent]), parent, len(in[child]), child, count)
		return
	}
	for _, one := range in[child] {
		if one.Parent.SpanID() != in[parent][0].SpanContext.SpanID() {
			s.t.Errorf("%s is below another span than %s", child, parent)
		}
	}
}

// everywhere checks that each node has applied the entry of a trace.
func (s *spans) everywhere(in map[string][]span) {
	s.t.Helper()
	var nodes []int
	for _, one := range in["holdfast.apply"] {
		nodes = append(nodes, one.node)
	}
	slices.Sort(nodes)
	if !slices.Equal(nodes, []int{1, 2, 3}) {
		s.t.Errorf("the entry was applied on %v, want all nodes", nodes)
	}
}

// hide checks that no span shows a secret, in its name, its status or an attribute.
func (s *spans) hide(secrets ...string) {
	s.t.Helper()
	all := s.all()
	if len(all) == 0 {
		s.t.Error("there are no spans to check")
	}
	for _, one := range all {
		shown := []string{one.Name, one.Status.Description}
		for _, a := range one.Attributes {
			shown = append(shown, a.Value.String())
		}
		for _, secret := range secrets {
			if strings.Contains(strings.Join(shown, "\n"), secret) {
				s.t.Errorf("a span %s shows the secret %s", one.Name, secret)
			}
		}
	}
}

func (s *spans) reset() {
	time.Sleep(6 * time.Second)
	for _, e := range s.of {
		e.Reset()
	}
}

// headerKey is the key of a caller's trace in a context.
type headerKey struct{}

const theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// leaderOf returns the node that leads.
func leaderOf(c *whole.Cluster) int {
	web := whole.Browser(c.Host("operator"))
	for i, name := range c.Names {
		if n, err := whole.Metric(web, "http://"+name+":7403/metrics", "holdfast_is_leader"); err == nil && n == 1 {
			return i + 1
		}
	}
	c.T.Fatal("no node leads")
	return 0
}

// An open, a write and a move through a follower, and an expiry, are one trace each: their spans are on the nodes that
// do the work, below each other. Touches make no span.
func TestTraces(t *testing.T) {
	s := newSpans()
	whole.RunSetup(t, whole.Setup{Spans: s.exporter}, func(c *whole.Cluster) {
		s.t = c.T
		leads := leaderOf(c)
		follower, other := c.Names[leads%3], c.Names[(leads+1)%3]
		at := func(host, node string) *client.Client {
			cl, err := client.New(client.Config{
				Endpoints: []string{node + ":7400"}, OnlyEndpoints: true, Dial: c.Host(host).Dial,
				Trace: func(ctx context.Context) string { header, _ := ctx.Value(headerKey{}).(string); return header },
			})
			if err != nil {
				c.T.Fatal(err)
			}
			return cl
		}
		first := at("first", follower)
		defer first.Close()
		held := c.Session(first, 10*time.Second)
		opened := s.trace("holdfast.open")
		s.below(opened, "holdfast.open", "holdfast.forward", 1)
		s.below(opened, "holdfast.open", "holdfast.await_apply", 1)
		s.below(opened, "holdfast.forward", "holdfast.lead", 1)
		s.below(opened, "holdfast.lead", "holdfast.propose", 1)
		s.below(opened, "holdfast.propose", "holdfast.apply", 3)
		s.everywhere(opened)
		for name, node := range map[string]int{
			"holdfast.open": leads%3 + 1, "holdfast.forward": leads%3 + 1, "holdfast.lead": leads, "holdfast.propose": leads,
		} {
			if got := opened[name]; len(got) != 1 || got[0].node != node {
				c.T.Errorf("%s: %v, want one of node %d", name, got, node)
			}
		}
		s.reset()

		time.Sleep(30 * time.Second) // nothing but touches
		if all := s.all(); len(all) > 0 {
			c.T.Errorf("touches made %d spans, the first is %s", len(all), all[0].Name)
		}

		ctx := context.WithValue(c.T.Context(), headerKey{}, theirs)
		if _, err := held.Tree().Create(ctx, "/secret-less", []byte("planted-data"),
			client.CreateOptions{}); err != nil {
			c.T.Fatal(err)
		}
		wrote := s.trace("holdfast.write")
		if got := wrote["holdfast.write"]; len(got) != 1 ||
			got[0].SpanContext.TraceID().String()+got[0].Parent.SpanID().String() != theirs[3:35]+theirs[36:52] {
			c.T.Errorf("the write is not below its caller's span: %v", got)
		}
		s.below(wrote, "holdfast.write", "holdfast.forward", 1)
		s.below(wrote, "holdfast.forward", "holdfast.propose", 1)
		s.below(wrote, "holdfast.propose", "holdfast.apply", 3)
		s.everywhere(wrote)
		s.hide("planted-data")
		s.reset()

		second := at("second", other)
		moved, err := second.Resume(c.T.Context(), held.Token())
		if err != nil {
			c.T.Fatal(err)
		}
		resumed := s.trace("holdfast.resume")
		s.below(resumed, "holdfast.lead", "holdfast.propose", 1)
		s.everywhere(resumed)
		id, credential := moved.ID().String(), moved.Token().Secret()
		s.hide(credential, strings.Split(credential, ".")[1])
		s.reset()

		if err := second.Close(); err != nil { // the session is touched no longer
			c.T.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		ended := s.trace("holdfast.expire")
		s.below(ended, "holdfast.expire", "holdfast.propose", 1)
		s.below(ended, "holdfast.propose", "holdfast.apply", 3)
		s.everywhere(ended)
		if got := ended["holdfast.expire"]; len(got) != 1 || got[0].node != leads {
			c.T.Errorf("the leader %d decided: %v", leads, got)
		} else if !slices.ContainsFunc(got[0].Attributes, func(a attribute.KeyValue) bool {
			return strings.Contains(a.Value.String(), id)
		}) {
			c.T.Errorf("the expiry names %v, want session %s", got[0].Attributes, id)
		}
	})
}

// Nothing is traced with a ratio of 0.
func TestTracesNotSampled(t *testing.T) {
	s := newSpans()
	whole.RunSetup(t, whole.Setup{
		Spans: s.exporter, Change: func(cfg *config.Config) { cfg.Log.Tracing.SampleRatio = 0 },
	}, func(c *whole.Cluster) {
		s.t = c.T
		cl := c.Client("client")
		defer cl.Close()
		c.Session(cl, 10*time.Second)
		if all := s.all(); len(all) > 0 {
			c.T.Errorf("%d spans, the first is %s", len(all), all[0].Name)
		}
	})
}
