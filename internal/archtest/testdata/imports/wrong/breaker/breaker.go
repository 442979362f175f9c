package breaker

import (
	"github.com/openai/openai-go/v3/option"

	"nightshift/internal/sim"
	"nightshift/limit"
)
