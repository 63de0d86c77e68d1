package config

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Settings of traces that cannot work are refused by name, wherever they come from.
func TestTracingIsRefused(t *testing.T) {
	for name, all := range map[string][]string{
		"trace_endpoint": {
			"otel:4317", "https://otel", "https://:4317", "https://otel:0", "https://otel:65536", "https://otel:grpc",
			"ftp://otel:4317", "https://otel:4317/v1/traces", "https://otel:4317?a=b", "https://otel:4317#a",
			"https://me:secret@otel:4317", "https://me:a/secret@otel:4317", "https://me:a@secret@otel:4317",
			"https://ot el:4317", "://otel:4317", "HTTPS//otel:4317",
		},
		"trace_sample_ratio": {"-0.1", "1.1", "NaN", "Inf", "-Inf", "half", "50%", "1,0"},
	} {
		for _, value := range all {
			fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
			RegisterFlags(fs)
			if err := fs.Parse([]string{"--node=1", "--data-dir=d", "--peers=1=n1", "--auth=none"}); err != nil {
				t.Fatal(err)
			}
			_, err := Load(fs, []string{"HOLDFAST_" + strings.ToUpper(name) + "=" + value})
			if e, ok := errors.AsType[*SettingError](err); !ok || e.Setting != name {
				t.Errorf("%s %q from the environment: %v", name, value, err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("a password is shown: %v", err)
			}
		}
	}
	for _, ratio := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		c := validConfig(t)
		c.Log.Tracing.SampleRatio = ratio
		if e, ok := errors.AsType[*SettingError](refusal(&c)); !ok || e.Setting != "trace_sample_ratio" {
			t.Errorf("a ratio of %v: %v", ratio, refusal(&c))
		}
	}
	for _, fine := range []string{"", "http://otel:1", "https://[2001:db8::1]:65535", "https://10.0.0.1:4317"} {
		c := validConfig(t)
		c.Log.Tracing.Endpoint = fine
		if err := refusal(&c); err != nil {
			t.Errorf("%q: %v", fine, err)
		}
	}
}

func refusal(c *Config) error {
	_, err := c.Complete()
	return err
}
