package config

import "time"

// Config is a loaded file: complete, valid, with every default filled in.
type Config struct {
	// Where backlog, queue, breakers and results live.
	Redis Redis `yaml:"redis"`
	// The time zone of times without one, e.g. Europe/Berlin; Local is the machine's.
	Timezone string `yaml:"timezone" default:"Local"`
	// Endpoints, each with one key.
	Providers map[string]Provider `yaml:"providers" keyed:"Name"`
	// What answers, under keys of yours: `provider/name`. What a model does not set is taken from its provider, its tier and the breaker block.
	Models map[string]Model `yaml:"models" keyed:"Key"`
	// Ordered lists of rungs: the first rung that can answer does.
	Ladders map[string]Ladder `yaml:"ladders" keyed:"Name"`
	// Service classes, in the order of the file; the first is the default one.
	Queues []Queue `yaml:"queues" keyed:"Name"`
	// When calls to a model stop, and how they start again. Each model and each provider has a breaker of its own.
	Breaker Breaker `yaml:"breaker"`
	// The hourly guard: how much each producer may call in an hour, whatever its scripts submit. `worker guard` shows and releases it.
	Guard Guard `yaml:"guard"`
	// Batches after their end.
	Batches Batches `yaml:"batches"`
	// Who is told when a person may be needed, and of the ends of all batches: services and chats, by their webhooks. [alerts.md](alerts.md) says what they are told.
	Notify []Receiver `yaml:"notify"`
	// When the receivers of `notify` are told.
	Alerts Alerts `yaml:"alerts"`
	// The worker process.
	Worker Worker `yaml:"worker"`
	// The log of calls: a record for each call and each deferral, without prompts and answers. `worker calls` exports it; [formats.md](formats.md#the-call-log) says what stands in it.
	CallLog CallLog `yaml:"call_log"`
	// The web page, which `worker dashboard` and `worker run --dashboard` serve.
	Dashboard Dashboard `yaml:"dashboard"`
	// The endpoint for Prometheus, at /metrics, which `worker run --metrics` serves.
	Metrics Metrics `yaml:"metrics"`
}

// Redis says where Redis is.
type Redis struct {
	// A redis, rediss, redis-socket, redis-sentinel or redis-cluster URL, or `embedded`: a Redis inside the process, which ends with it. Where no Redis is named, here or elsewhere, `enqueue run` embeds one.
	URL string `yaml:"url" default:"redis://127.0.0.1:6379/0"`
	// Source says who named URL.
	Source Source `yaml:"-"`
}

// Provider is one endpoint with one key.
type Provider struct {
	Name string `yaml:"-"`
	// The API that it speaks: OpenAI's chat completions, or Anthropic's Messages API. Requests and results have OpenAI's shape with both; [providers.md](providers.md) says what is carried over.
	API string `yaml:"api" enum:"openai,anthropic" default:"openai"`
	// The address up to and including the version, e.g. `http://127.0.0.1:11434/v1`; with `api: anthropic` the version may also be left off. Required, but for a provider named `openai` and for `api: anthropic`, whose default is `https://api.anthropic.com`.
	BaseURL string `yaml:"base_url"`
	// The environment variable that holds the key. Without it and `api_key_file`, no key is sent.
	APIKeyEnv string `yaml:"api_key_env"`
	// A file that holds the key, read anew for every call; relative to this file.
	APIKeyFile string `yaml:"api_key_file"`
	// Sent with every call. Keys do not belong here.
	Headers Headers `yaml:"headers"`
	// The breaker of the provider as a whole, or of each of its regions: its own fields of the breaker block. It opens on failures of two or more models, and where the key is refused or the credit used up.
	Breaker *Breaker `yaml:"breaker"` // nil: the block; else resolved
}

// Headers are HTTP headers. Their values are never printed.
type Headers map[string]string

// Model is the smallest unit that fails on its own. What it does not set itself
// is taken from its provider, its tier and the breaker block.
type Model struct {
	Key        string `yaml:"-"` // provider/name
	Provider   string `yaml:"-"` // the part of Key before its first slash
	APIKeyFile string `yaml:"-"` // the provider's, unless the model has a key of its own

	// The name that is sent. Default: the key after its first slash.
	Name string `yaml:"name"`
	// A label for models that differ by where they run, e.g. eastus.
	Region string `yaml:"region"`
	// An address of its own. Default: the provider's.
	BaseURL string `yaml:"base_url"`
	// An environment variable of its own that holds the key. Default: the provider's key.
	APIKeyEnv string `yaml:"api_key_env"`
	// How good it is. The tier sets how long it may be silent: premium 30s, standard 20s, economy 15s, fallback 10s.
	Tier string `yaml:"tier" enum:"premium,standard,economy,fallback" default:"standard"`
	// What it costs. Without it the model counts as unpriced.
	Price  *Price `yaml:"price"` // nil: unpriced
	Limits Limits `yaml:"limits"`
	// Its context window in tokens; 0: not known. A line too long for one model goes to one with a larger window.
	Context int `yaml:"context"`
	// The longest a call may take in all.
	Timeout time.Duration `yaml:"timeout" default:"10m" min:"1ms"`
	// The longest silence before the first token; comments and keep-alives are none. A call that is not streamed is silent until its end, so this is how long it may take in all. Default: by tier, at most `timeout`.
	FirstToken time.Duration `yaml:"first_token" min:"1ms"` // never more than Timeout
	// The longest silence between two tokens of an answer that is streamed. Default: by tier, at most `timeout`.
	Idle  time.Duration `yaml:"idle" min:"1ms"`
	Probe Probe         `yaml:"probe"`
	// This model's own fields of the breaker block; the others are taken from there.
	Breaker Breaker `yaml:"breaker"` // resolved: the block with this model's own fields over it
}

// Price is in USD, per million tokens, and per call.
type Price struct {
	// USD per million input tokens.
	Input float64 `yaml:"input"`
	// USD per million input tokens that came from the provider's cache. Default: as `input`.
	CachedInput *float64 `yaml:"cached_input"` // nil: as Input
	// USD per million output tokens.
	Output float64 `yaml:"output"`
	// USD per call.
	PerCall float64 `yaml:"per_call"`
}

// Limits are what a model's provider allows; 0: it is found out by its refusals and
// headers. Where both are known, the lower one counts.
type Limits struct {
	// Requests a minute.
	RPM int `yaml:"rpm"`
	// Tokens a minute.
	TPM int `yaml:"tpm"`
	// Calls in flight, of the whole fleet.
	Concurrency int `yaml:"concurrency"`
}

// Probe replaces the synthetic probe of a model: at most one of the two.
type Probe struct {
	// The body of a chat completion to send in place of the short prompt; `model` is put in.
	Body map[string]any `yaml:"body"`
	// A path to get in place of a call, e.g. /health, which costs nothing. It starts at the host of `base_url`, and goes out with the headers and key of calls. 2xx: it is up; 429: parked; 401, 403: the key is refused; 5xx or no answer: still down; anything else says nothing, and a waiting line is the probe.
	Get string `yaml:"get"`
}

// Ladder is an ordered list of rungs.
type Ladder struct {
	Name string `yaml:"-"`
	// How the model rungs are ordered: as written, or best first by a score of success rate, latency and cost: balanced .4/.3/.3, speed .2/.6/.2, cost .2/.2/.6, reliability .7/.2/.1, or own, by `weights`. Rungs with `after` or `at_deadline` and texts keep their places. 2% of the choices try another model first.
	Goal string `yaml:"goal" enum:"order,balanced,speed,cost,reliability,own" default:"order"`
	// What the goal `own` weighs.
	Weights Weights `yaml:"weights"`
	// How long a line waits for a rung that is rate-limited before it takes the next one.
	Patience time.Duration `yaml:"patience" default:"5m"`
	// The most calls a line may cost. 0: one full pass of the ladder for every attempt.
	MaxCalls int `yaml:"max_calls"`
	// What a content filter's refusal means: the line fails, or the next rung is tried.
	OnFilter string `yaml:"on_filter" enum:"fail,next" default:"fail"`
	// What a line too long for every model means: it fails, or its oldest messages are left out for the model with the largest context (never those of the system, nor the last of the user), which its result says.
	OnContext string `yaml:"on_context" enum:"fail,truncate" default:"fail"`
	// The rungs, best first. Required.
	Rungs   []Rung  `yaml:"rungs"`
	Output  Output  `yaml:"output"`
	Quality Quality `yaml:"quality"`
	// How long an answer is kept for identical requests to this ladder, which it then answers without a call; 0: not at all. Kept are whole answers of the first choice, up to 1 MiB compressed, in Redis.
	Cache time.Duration `yaml:"cache"`
}

// GoalOwn is the goal that goes by Ladder.Weights.
const GoalOwn = "own"

// Weights are those of a ladder's own goal; only their ratios matter.
type Weights struct {
	// The share of calls that are answered.
	Success float64 `yaml:"success"`
	// How long an answer takes, beside the fastest model.
	Latency float64 `yaml:"latency"`
	// What a typical call costs, beside the cheapest model.
	Cost float64 `yaml:"cost"`
}

// Rung is a model, or a text without a model.
type Rung struct {
	// A key of `models`. A rung has a model or a text.
	Model string `yaml:"model"`
	// Calls to this model before the next rung.
	Tries int `yaml:"tries" default:"2" min:"1" max:"10"`
	// Fields of the request that this rung sets, e.g. `{service_tier: flex}`.
	Set map[string]any `yaml:"set"`
	// Fields of the request that this rung leaves out.
	Drop []string `yaml:"drop"`
	// A price of its own. Default: the model's.
	Price *Price `yaml:"price"`
	// How long after an open breaker first refused the line this rung may be tried. Waiting for a rate limit does not count.
	After time.Duration `yaml:"after"`
	// Only when waiting longer would miss the deadline: a while before it, by the lines that are left (from 2 s, 75 s for a deadline of 25 minutes or more, plus a second per thousand lines). Without a deadline, never.
	AtDeadline bool `yaml:"at_deadline"`
	// A last resort without a model: a Go template over the line, e.g. `No answer for {{.metadata.title}}.`
	Text string `yaml:"text"`
	// Texts for the lines that match: the first rule that does answers. A line that matches none passes the rung over.
	Rules []Rule `yaml:"rules"`
}

// Rule is a text for the lines that match.
type Rule struct {
	// A regular expression (RE2), which must match somewhere in the text of the line's last user message.
	Match string `yaml:"match"`
	// A Go template over the line, as the `text` of a rung.
	Text string `yaml:"text"`
}

// Output is the guard of a ladder's answers.
type Output struct {
	// A file with a JSON schema that every answer must satisfy, but for that of a line with a schema of its own; relative to this file. It must stand alone: `$ref` reaches its own parts only.
	Schema string `yaml:"schema"`
	// How often a model is asked again for a line when its answer is invalid, with its answer and what is wrong with it. Each time is a call. Then the next rung.
	Repairs int `yaml:"repairs" default:"2" max:"10"`
	// Regular expressions that no answer may match.
	Deny []string `yaml:"deny"`

	SchemaText []byte `yaml:"-"` // what Schema names, which compiles; nil without
}

// Quality says what happens to a model whose answers are invalid.
type Quality struct {
	// Per cent of the last 50 answers of a model, once 10 were judged by a schema or `deny`.
	Invalid int `yaml:"invalid" default:"25" max:"100"`
	// What happens above it: a line in the log, or the model also goes last until it is better.
	Action string `yaml:"action" enum:"warn,demote" default:"warn"`
}

// Queue is a service class.
type Queue struct {
	Name string `yaml:"-"`
	// The ladder that its lines climb. Required.
	Ladder string `yaml:"ladder"`
	// Lines under way at once in each worker process.
	Concurrency int `yaml:"concurrency" default:"10" min:"1" max:"10000"`
	// Attempts after the first that may really fail. Waiting for a breaker or a rate limit costs none.
	Retries int `yaml:"retries" default:"5" max:"500"`
	// How long after its submission, or after its `--at` or `--in`, a batch must be done; 0: no deadline.
	Deadline time.Duration `yaml:"deadline" default:"24h"`
	// The hours in which it runs, in `timezone`: `22:00-07:00`, also over midnight, or with the days on which they begin, `mon-fri 22:00-07:00, sat-sun`; days without times are whole. Outside of them its lines wait, and calls in flight finish. Empty: always. [batches.md](batches.md#schedule) says more.
	Hours string `yaml:"hours"`
	// Tasks kept ready in the queue; 0: as many as it begins in two seconds.
	ReleaseAhead int `yaml:"release_ahead"`
}

// Breaker is the breaker block, and a model's or provider's own fields of it.
type Breaker struct {
	// The breaker looks at the last so many calls.
	Window int `yaml:"window" default:"20" min:"1" max:"1000"`
	// It opens when so many of them failed.
	Failures int `yaml:"failures" default:"11" min:"1"`
	// It does not open before it has seen so many calls; 0: as soon as `failures` failed.
	MinResults int `yaml:"min_results"`
	// Calls older than this are forgotten; `auto`: 5 minutes, stretched up to an hour where calls are rare.
	Stale Auto `yaml:"stale" default:"auto" min:"1ms"`
	// How long it stays open before a probe; doubled with each failed one.
	Cooldown time.Duration `yaml:"cooldown" default:"30s" min:"1ms"`
	// The longest that the cooldown grows.
	MaxCooldown time.Duration `yaml:"max_cooldown" default:"5m" min:"1ms"`
	// Probes in flight at once in the whole fleet.
	Probes int `yaml:"probes" default:"1" min:"1"`
	// Probes of a round that must succeed before it closes.
	ProbeSuccesses int `yaml:"probe_successes" default:"1" min:"1"`
	// What a probe is: a short prompt of ours (or the model's own `probe`), or the first waiting line that asks.
	Probe string `yaml:"probe" enum:"synthetic,task" default:"synthetic"`
	// A call slower than this counts as failed; 0s: none does.
	SlowCall time.Duration `yaml:"slow_call"`
}

// Auto is a duration that can also be "auto", which is 0.
type Auto time.Duration

// Guard is the hourly guard; [Guard.Of] has the limits of a producer.
type Guard struct {
	// Calls in any hour, of each producer; 0: no limit. Tries, repairs and calls that failed count. The default lets 40,000 lines through in a night, and a script in an endless loop spend no more than a few dozen USD an hour at common prices; [limits.md](limits.md) has the figures.
	CallsPerHour int `yaml:"calls_per_hour" default:"5000" max:"1000000000"`
	// USD in any hour, of each producer; 0: no limit. Every model of a ladder must then have a price.
	USDPerHour float64 `yaml:"usd_per_hour" max:"1000000"`
	// Calls in any hour, of all producers together; 0: no limit. Probes count too.
	GlobalCallsPerHour int `yaml:"global_calls_per_hour" max:"1000000000"`
	// What happens to lines over a limit: they wait, or they use rungs that cost nothing meanwhile: texts, and models without a price or with one of zeros.
	Over string `yaml:"over" enum:"defer,degrade" default:"defer"`
	// Limits of single producers, by name.
	Producers map[string]GuardProducer `yaml:"producers"`
}

// GuardProducer is one producer's own limits.
type GuardProducer struct {
	// Calls in any hour; 0: as for all.
	CallsPerHour int `yaml:"calls_per_hour" max:"1000000000"`
	// USD in any hour; 0: as for all.
	USDPerHour float64 `yaml:"usd_per_hour" max:"1000000"`
}

// OverDegrade is the Over that lets lines use rungs that cost nothing.
const OverDegrade = "degrade"

// Batches says how long batches are kept after their end.
type Batches struct {
	// How long a batch is kept after its end, with its requests and results; then the keeper deletes it. 0: for ever.
	Keep time.Duration `yaml:"keep" default:"168h"`
	// How URLs are told of the ends of batches (`enqueue batch --notify`).
	Notify Notify `yaml:"notify"`
}

// Notify is about telling URLs of the ends of batches.
type Notify struct {
	// The environment variable of the workers that holds the secret which signs messages, as Standard Webhooks has it: `whsec_` and base64, or any other text of 24 bytes or more, as it is. Without it they are not signed.
	SecretEnv string `yaml:"secret_env"`
	// Whether a URL may lead to the machine itself or to private networks: loopback, RFC 1918, 100.64.0.0/10 and fc00::/7. Link-local addresses, where clouds serve their keys, stay closed.
	AllowPrivate bool `yaml:"allow_private"`
}

// Receiver is one who is told of events, under a URL.
type Receiver struct {
	// Where messages go, http or https. That of a chat's webhook is a secret by itself, which belongs into `url_env`. One of the two is required.
	URL SecretURL `yaml:"url"`
	// The environment variable of the workers that holds the URL.
	URLEnv string `yaml:"url_env"`
	// What it is told of: `breaker_open_long`, `guard_tripped`, `deadline_at_risk`, `batch_done`. Default: all of them.
	Events []string `yaml:"events"`
	// The shape of its messages: JSON for programs, or what the chats Slack, Feishu (Lark) and DingTalk take from a bot.
	Format string `yaml:"format" enum:"json,slack,feishu,dingtalk" default:"json"`
	// The environment variable of the workers that holds the secret which signs its messages: with `json` as Standard Webhooks has it, `whsec_` and base64, or any other text of 24 bytes or more, as it is; with `feishu` and `dingtalk` the secret of the bot. Without it they are not signed. Slack knows none.
	SecretEnv string `yaml:"secret_env"`
	// Whether its URL may lead to the machine itself or to private networks, as `batches.notify.allow_private`.
	AllowPrivate bool `yaml:"allow_private"`
}

// SecretURL is a URL of which no more than its host is printed.
type SecretURL string

// Events are what a receiver can be told of.
var Events = []string{"breaker_open_long", "guard_tripped", "deadline_at_risk", "batch_done"}

// Alerts are the thresholds of events.
type Alerts struct {
	// How long a breaker that waiting work needs, or that a person holds open, must not have closed before `breaker_open_long`.
	BreakerOpen time.Duration `yaml:"breaker_open" default:"15m"`
	// How long before its deadline a batch should be done; one that is thought to end later is at risk, and one of whose end nothing is known is at risk when so little is left. Of a batch with less than ten times as long for all, a tenth of that.
	DeadlineSlack time.Duration `yaml:"deadline_slack" default:"15m"`
	// How long a batch must have been at risk before `deadline_at_risk`, and out of it before that is resolved: a forecast wavers.
	DeadlineFor time.Duration `yaml:"deadline_for" default:"5m"`
	// How long a guard must have been closed before `guard_tripped` is resolved. One that is at its limit opens and closes every minute.
	GuardQuiet time.Duration `yaml:"guard_quiet" default:"15m"`
}

// Worker is about the worker process.
type Worker struct {
	// How long calls in flight may finish after SIGTERM.
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout" default:"60s"`
}

// CallLog is the log of calls.
type CallLog struct {
	// How many records Redis keeps, at least; 0: none. One takes about 150 bytes.
	Keep int `yaml:"keep" default:"200000"`
	// A file to which each worker appends its records too, rotated at 100 MB, of which ten are kept, compressed; relative to this file. {host} and {pid} in it stand for the worker's: two workers must not share one file.
	File string `yaml:"file"`
}

// Dashboard is the web page.
type Dashboard struct {
	// Where it listens with `worker dashboard` or `worker run --dashboard`; `""`: nowhere. On any address but loopback it needs a token, or it does not start.
	Addr string `yaml:"addr" default:"127.0.0.1:8080"`
	// The environment variable of the process that serves it, with the token to log in with: 16 characters or more. Without it everyone on the machine is let in, and nobody else; [dashboard.md](dashboard.md#who-may-see-it) says more.
	TokenEnv string `yaml:"token_env"`
	// The certificate with which it speaks TLS itself. Without one it speaks plain HTTP, for loopback or for a proxy in front that speaks TLS.
	TLS TLS `yaml:"tls"`
	// Whether asynq's pages under /queues can change something: pause queues, and run, archive or delete tasks.
	Queues string `yaml:"queues" enum:"read,write" default:"read"`
	// The path under which it is served, e.g. `/nightshift`, for a proxy in front that passes the path on as it is.
	BasePath string `yaml:"base_path"`
	// Whether prompts and answers are shown.
	ShowContent bool `yaml:"show_content"`
}

// QueuesWrite is the Queues that lets asynq's pages change something.
const QueuesWrite = "write"

// TLS names a certificate. Both files are read again when they change.
type TLS struct {
	// A PEM file with the certificate and what leads to its authority; relative to this file, and read again when it changes.
	CertFile string `yaml:"cert_file"`
	// A PEM file with the certificate's key; relative to this file, and read again when it changes.
	KeyFile string `yaml:"key_file"`
}

// Metrics is the Prometheus endpoint.
type Metrics struct {
	// Where it listens with `worker run --metrics`; without that flag nothing is served. `""`: nowhere.
	Addr string `yaml:"addr" default:"127.0.0.1:9464"`
}
