/* Moved down: export needs it as well. */
#include "trace/facts.h"
