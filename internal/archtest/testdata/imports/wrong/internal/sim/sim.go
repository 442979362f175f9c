package sim

import "nightshift/provider"
