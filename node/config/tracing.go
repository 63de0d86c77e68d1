package config

import (
	"errors"
	"net"
	"net/url"
	"strconv"

	"github.com/spf13/pflag"
)

// Tracing says where the spans of traces go.
type Tracing struct {
	// Endpoint is the collector's URL, with http or https; empty: nothing is traced.
	Endpoint string
	// CA has the CAs of the collector's certificate; empty: those of the system.
	CA string
	// SampleRatio is which part of the requests is traced that come without a trace, and of the expiries.
	SampleRatio float64
}

const endpointLimit = "http://HOST:PORT or https://HOST:PORT, or empty"

func tracingSettings() []setting {
	return []setting{
		word("trace_endpoint", "", endpointLimit, func(s string) bool { return s == "" || validEndpoint(s) },
			func(c *Config) *string { return &c.Log.Tracing.Endpoint }).
			helps("OpenTelemetry collector (OTLP over gRPC) for traces of opens, moves, closes, writes and expiries, " +
				"such as https://otel:4317; empty: no traces").from("empty"),
		{
			name: "trace_sample_ratio", def: "1", kind: "number", limit: "0 to 1",
			help: "traced part of the expiries, and of requests without a trace; a request with a trace follows its caller",
			ok:   func(c *Config) bool { return c.Log.Tracing.SampleRatio >= 0 && c.Log.Tracing.SampleRatio <= 1 },
			value: func(c *Config) pflag.Value {
				return &text[float64]{
					at: &c.Log.Tracing.SampleRatio, kind: "number", parse: parseRatio,
					format: func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) },
				}
			},
		},
		word("trace_ca", "", "a path, or empty", func(string) bool { return true },
			func(c *Config) *string { return &c.Log.Tracing.CA }).
			helps("PEM file of the CAs of the collector's certificate; empty: the system's").from("empty"),
	}
}

func parseRatio(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= 1) { // NaN is in no range
		return 0, errors.New("must be a number, 0 to 1")
	}
	return v, nil
}

func validEndpoint(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" || u.RawQuery != "" ||
		u.Fragment != "" {
		return false
	}
	host, port, err := net.SplitHostPort(u.Host)
	n, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && host != "" && bad == nil && n > 0
}
