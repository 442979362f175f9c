package config

import "time"

// Config is a loaded file: complete, valid, with every default filled in.
type Config struct {
	Redis     Redis               `yaml:"redis"`
	Timezone  string              `yaml:"timezone"`
	Providers map[string]Provider `yaml:"providers"`
	Models    map[string]Model    `yaml:"models"`
	Ladders   map[string]Ladder   `yaml:"ladders"`
	// Queues are in the order of the file; the first is the default one.
	Queues    []Queue   `yaml:"-"`
	Breaker   Breaker   `yaml:"breaker"`
	Guard     Guard     `yaml:"guard"`
	Batches   Batches   `yaml:"batches"`
	Worker    Worker    `yaml:"worker"`
	CallLog   CallLog   `yaml:"call_log"`
	Dashboard Dashboard `yaml:"dashboard"`
	Metrics   Metrics   `yaml:"metrics"`
}

// Redis says where Redis is.
type Redis struct {
	// URL is redis, rediss, redis-socket, redis-sentinel, redis-cluster or "embedded".
	URL string `yaml:"url"`
}

// Provider is one endpoint with one key.
type Provider struct {
	Name       string            `yaml:"-"`
	API        string            `yaml:"api"` // openai, anthropic
	BaseURL    string            `yaml:"base_url"`
	APIKeyEnv  string            `yaml:"api_key_env"`
	APIKeyFile string            `yaml:"api_key_file"`
	Headers    map[string]string `yaml:"headers"`
}

// Model is the smallest unit that fails on its own. What it does not set itself
// is taken from its provider, its tier and the breaker block.
type Model struct {
	Key      string `yaml:"-"` // provider/name
	Provider string `yaml:"-"` // the part of Key before its first slash

	Name       string        `yaml:"name"`
	Region     string        `yaml:"region"`
	BaseURL    string        `yaml:"base_url"`
	APIKeyEnv  string        `yaml:"api_key_env"`
	Tier       string        `yaml:"tier"`  // premium, standard, economy, fallback
	Price      *Price        `yaml:"price"` // nil: unpriced
	Limits     Limits        `yaml:"limits"`
	Context    int           `yaml:"context"` // tokens; 0: not known
	Timeout    time.Duration `yaml:"timeout"`
	FirstToken time.Duration `yaml:"first_token"`
	Idle       time.Duration `yaml:"idle"`
	Probe      Probe         `yaml:"probe"`
	Breaker    Breaker       `yaml:"breaker"` // resolved: the block with this model's own fields over it
}

// Price is in USD, per million tokens, and per call.
type Price struct {
	Input       float64  `yaml:"input"`
	CachedInput *float64 `yaml:"cached_input"` // nil: as Input
	Output      float64  `yaml:"output"`
	PerCall     float64  `yaml:"per_call"`
}

// Limits are a model's own; 0: none.
type Limits struct {
	RPM         int `yaml:"rpm"`
	TPM         int `yaml:"tpm"`
	Concurrency int `yaml:"concurrency"`
}

// Probe replaces the synthetic probe of a model.
type Probe struct {
	Body map[string]any `yaml:"body"`
	Get  string         `yaml:"get"`
}

// Ladder is an ordered list of rungs.
type Ladder struct {
	Name      string        `yaml:"-"`
	Goal      string        `yaml:"goal"`
	Patience  time.Duration `yaml:"patience"`
	MaxCalls  int           `yaml:"max_calls"`
	OnFilter  string        `yaml:"on_filter"`
	OnContext string        `yaml:"on_context"`
	Rungs     []Rung        `yaml:"rungs"`
	Output    Output        `yaml:"output"`
	Quality   Quality       `yaml:"quality"`
	Cache     time.Duration `yaml:"cache"`
}

// Rung is a model, or a text without a model.
type Rung struct {
	Model      string         `yaml:"model"`
	Tries      int            `yaml:"tries"`
	Set        map[string]any `yaml:"set"`
	Drop       []string       `yaml:"drop"`
	Price      *Price         `yaml:"price"`
	After      time.Duration  `yaml:"after"`
	AtDeadline bool           `yaml:"at_deadline"`
	Text       string         `yaml:"text"`
	Rules      []Rule         `yaml:"rules"`
}

// Rule is a text for the lines that match.
type Rule struct {
	Match string `yaml:"match"`
	Text  string `yaml:"text"`
}

// Output is the guard of a ladder's answers.
type Output struct {
	Schema  string   `yaml:"schema"`
	Repairs int      `yaml:"repairs"`
	Deny    []string `yaml:"deny"`
}

// Quality says what happens to a model whose answers are invalid.
type Quality struct {
	Invalid int    `yaml:"invalid"` // per cent of the last 50
	Action  string `yaml:"action"`  // warn, demote
}

// Queue is a service class.
type Queue struct {
	Name         string        `yaml:"-"`
	Ladder       string        `yaml:"ladder"`
	Concurrency  int           `yaml:"concurrency"` // slots a worker process
	Retries      int           `yaml:"retries"`
	Deadline     time.Duration `yaml:"deadline"` // 0: none
	Hours        string        `yaml:"hours"`
	ReleaseAhead int           `yaml:"release_ahead"` // 0: chosen by the keeper
}

// Breaker is the breaker block, and a model's or provider's own fields of it.
type Breaker struct {
	Window         int           `yaml:"window"`
	Failures       int           `yaml:"failures"`
	MinResults     int           `yaml:"min_results"`
	Stale          Auto          `yaml:"stale"`
	Cooldown       time.Duration `yaml:"cooldown"`
	MaxCooldown    time.Duration `yaml:"max_cooldown"`
	Probes         int           `yaml:"probes"`
	ProbeSuccesses int           `yaml:"probe_successes"`
	Probe          string        `yaml:"probe"` // synthetic, task
	SlowCall       time.Duration `yaml:"slow_call"`
}

// Auto is a duration that can also be "auto", which is 0.
type Auto time.Duration

// Guard is the hourly guard.
type Guard struct {
	CallsPerHour       int                      `yaml:"calls_per_hour"`
	USDPerHour         float64                  `yaml:"usd_per_hour"`
	GlobalCallsPerHour int                      `yaml:"global_calls_per_hour"`
	Over               string                   `yaml:"over"` // defer, degrade
	Producers          map[string]GuardProducer `yaml:"producers"`
}

// GuardProducer is one producer's own limits.
type GuardProducer struct {
	CallsPerHour int     `yaml:"calls_per_hour"`
	USDPerHour   float64 `yaml:"usd_per_hour"`
}

// Batches says how long batches are kept after their end.
type Batches struct {
	Keep time.Duration `yaml:"keep"`
}

// Worker is about the worker process.
type Worker struct {
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"`
}

// CallLog is the log of calls.
type CallLog struct {
	Keep int    `yaml:"keep"`
	File string `yaml:"file"`
}

// Dashboard is the web page.
type Dashboard struct {
	Addr        string `yaml:"addr"`
	TokenEnv    string `yaml:"token_env"`
	Queues      string `yaml:"queues"` // read, write
	BasePath    string `yaml:"base_path"`
	ShowContent bool   `yaml:"show_content"`
}

// Metrics is the address of the Prometheus endpoint; "" serves none.
type Metrics struct {
	Addr string `yaml:"addr"`
}
