package whole_test

import (
	"context"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/node/config"
	"holdfast/test/whole"
)

// An application's requests to the SDK are below the application's span: a resume and an upgrade on a stream, and the
// close by a token, which is a separate call. Later work of the SDK on its own, such as a move, is in no trace of the
// caller.
func TestTracesOfTheSDK(t *testing.T) {
	s := newSpans()
	locals := func(cfg *config.Config) { cfg.Sessions.Local = true }
	whole.RunSetup(t, whole.Setup{Spans: s.exporter, Change: locals}, func(c *whole.Cluster) {
		s.t = c.T
		at := func(host string, nodes ...string) *client.Client {
			cl, err := client.New(client.Config{
				Endpoints: nodes, OnlyEndpoints: true, Dial: c.Host(host).Dial,
				Trace: func(ctx context.Context) string { header, _ := ctx.Value(headerKey{}).(string); return header },
			})
			if err != nil {
				c.T.Fatal(err)
			}
			c.T.Cleanup(func() { cl.Close() })
			return cl
		}
		below := func(name string) {
			c.T.Helper()
			got := s.trace(name)[name]
			if len(got) != 1 ||
				got[0].Parent.TraceID().String()+got[0].Parent.SpanID().String() != theirs[3:35]+theirs[36:52] {
				c.T.Errorf("%s is not below its caller's span: %v", name, got)
			}
			s.reset()
		}
		traced := context.WithValue(c.T.Context(), headerKey{}, theirs)
		held := c.Session(at("first", "n1:7400"), 10*time.Second)
		s.reset()
		second := at("second", "n2:7400", "n3:7400")
		moved, err := second.Resume(traced, held.Token())
		if err != nil {
			c.T.Fatal(err)
		}
		below("holdfast.resume")

		lost := c.Names[moved.Owner()-1]
		c.Cut("second", lost)
		for range 100 {
			if c.Names[moved.Owner()-1] != lost {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if s.trace("holdfast.resume")["holdfast.resume"] == nil || moved.Err() != nil {
			c.T.Fatalf("the session has not moved away from %s: %v", lost, moved.Err())
		}
		for _, one := range s.all() {
			if one.SpanContext.TraceID().String() == theirs[3:35] {
				c.T.Errorf("a move by the SDK alone is in its caller's trace: %s", one.Name)
			}
		}
		c.Heal("second", lost)
		s.reset()

		local, err := second.Open(c.T.Context(), client.SessionOptions{Timeout: 10 * time.Second, Local: true})
		if err != nil {
			c.T.Fatal(err)
		}
		if err := local.Upgrade(traced); err != nil {
			c.T.Fatal(err)
		}
		below("holdfast.upgrade")

		if err := second.CloseToken(traced, moved.Token()); err != nil {
			c.T.Fatal(err)
		}
		below("holdfast.close")
	})
}
