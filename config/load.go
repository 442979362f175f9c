package config

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// DefaultPath is the file that is read when none is named.
const DefaultPath = "nightshift.yaml"

// RedisEnv is the environment variable that overrides redis.url.
const RedisEnv = "NIGHTSHIFT_REDIS_URL"

// Option changes how a configuration is loaded.
type Option func(*options)

type options struct {
	env      func(string) (string, bool)
	redisURL string
	keyless  bool
}

// WithRedis overrides the Redis URL of the file and the environment, as --redis
// does; "" overrides nothing.
func WithRedis(url string) Option { return func(o *options) { o.redisURL = url } }

// WithoutKeys leaves out the check that the keys of providers are there, for
// commands that call no provider: who submits a batch need not hold a key.
func WithoutKeys() Option { return func(o *options) { o.keyless = true } }

// WithEnv replaces the environment of the process, in tests.
func WithEnv(lookup func(string) (string, bool)) Option {
	return func(o *options) { o.env = lookup }
}

// Load reads the file at path; the environment is the process's own. Its error
// is an [*Error] with every problem, or that of reading the file, which matches
// [fs.ErrNotExist] where there is none.
func Load(path string, opts ...Option) (*Config, error) {
	o := options{env: os.LookupEnv}
	for _, opt := range opts {
		opt(&o)
	}
	data, err := readAtMost(path)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("read configuration %s: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return parse(path, data, o)
}

// readAtMost reads at most a byte more than a configuration may have, which is
// enough to refuse it: what is named may be a device without an end.
func readAtMost(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory; name the file in it", path)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxBytes+1))
}

// Parse reads a configuration from data. The name stands in its problems, and
// relative paths start at its directory; env looks up environment variables,
// nil has none. Its error is an [*Error].
//
// NIGHTSHIFT_REDIS_URL overrides redis.url, and [WithRedis] both.
func Parse(name string, data []byte, env func(string) (string, bool), opts ...Option) (*Config, error) {
	o := options{env: env}
	for _, opt := range opts {
		opt(&o)
	}
	return parse(name, data, o)
}

func parse(name string, data []byte, o options) (*Config, error) {
	if o.env == nil {
		o.env = func(string) (string, bool) { return "", false }
	}
	ps := &problems{file: name}
	root := parseTree(data, ps)
	if root == nil && len(ps.list) > 0 {
		return nil, ps.err() // nothing more can be said of what is no YAML
	}
	if root != nil && root.kind != mapKind && root.kind != nullKind {
		ps.add(root.pos, "", "want a mapping of keys, got "+string(root.kind), "worker init writes a configuration to start from")
		return nil, ps.err()
	}
	d := &decoder{problems: ps, places: map[string]place{}}
	cfg := &Config{}
	setDefaults(reflect.ValueOf(cfg).Elem())
	d.decode(root, reflect.ValueOf(cfg).Elem(), "", nil, position{1, 1})
	d.resolve(cfg, filepath.Dir(name))
	c := &checker{decoder: d, cfg: cfg, env: o.env, keyless: o.keyless}
	c.check()
	c.outputs(filepath.Dir(name))
	overrideRedis(cfg, o, ps)
	if err := ps.err(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// overrideRedis applies the flag, else the environment.
func overrideRedis(cfg *Config, o options, ps *problems) {
	name, source, url := "--redis", FromFlag, o.redisURL
	if url == "" {
		name, source = RedisEnv, FromEnvironment
		url, _ = o.env(RedisEnv)
	}
	if url == "" {
		return
	}
	r := Redis{URL: url, Source: source}
	if _, err := r.Target(); err != nil {
		ps.outside(name, oneLine(err), r.Example())
		return
	}
	cfg.Redis = r
}

// oneLine puts joined errors side by side.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ", ") }
