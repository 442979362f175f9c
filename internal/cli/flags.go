package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"nightshift/config"
)

// DefaultConfig is the configuration that is read where --config names none.
const DefaultConfig = "nightshift.yaml"

// Flags are the flags that every command has.
type Flags struct {
	Config    string
	Redis     string
	LogFormat string
	Verbose   bool

	set *pflag.FlagSet
}

func (f *Flags) register(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.Config, "config", DefaultConfig, "the configuration `FILE`")
	set.StringVar(&f.Redis, "redis", "", "the `URL` of Redis; before NIGHTSHIFT_REDIS_URL and the configuration")
	set.StringVar(&f.LogFormat, "log-format", "text", "`FORMAT` of the log on standard error: text or json")
	set.BoolVarP(&f.Verbose, "verbose", "v", false, "log details too")
}

func (f *Flags) check() error {
	if f.LogFormat != "text" && f.LogFormat != "json" {
		return Usage("write --log-format text or --log-format json", "--log-format %q is neither text nor json", f.LogFormat)
	}
	if f.Redis == "" {
		return nil
	}
	r := config.Redis{URL: f.Redis}
	if _, err := r.Target(); err != nil {
		return Usage(r.Example(), "--redis: %s", strings.ReplaceAll(err.Error(), "\n", ", "))
	}
	return nil
}

// ConfigNamed says whether --config was given.
func (f *Flags) ConfigNamed() bool { return f.set.Changed("config") }

// RedisNamed says whether --redis was given.
func (f *Flags) RedisNamed() bool { return f.set.Changed("redis") }
