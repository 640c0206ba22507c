//! Whether this host allows so many connections: found out before the start.

use ullage_common::{Failure, limits};

/// Descriptors that are open anyway, or for a moment: streams, log, epoll, signals, a connection that
/// is accepted only to be told that there are too many.
const SPARE: u64 = 32;
/// Connections at a time, unless the configuration says otherwise and where the host allows them.
const USUAL: u64 = 100_000;

/// Raises the soft limit of open descriptors to what `requested` connections need; none: as many as the
/// hard one allows, up to [`USUAL`]. Returns how many connections there may be.
pub fn connections(requested: Option<u32>) -> Result<usize, Failure> {
    let granted = fitting(requested, limits::most_descriptors()?)?;
    limits::allow_descriptors(granted + SPARE)?;
    Ok(usize::try_from(granted).unwrap_or(usize::MAX))
}

fn fitting(requested: Option<u32>, hard: u64) -> Result<u64, Failure> {
    let most = hard.saturating_sub(SPARE);
    let granted = requested.map_or(most.min(USUAL), u64::from);
    if granted == 0 || granted > most {
        return Err(Failure::too_low(format!(
            "{} connections need {} descriptors, RLIMIT_NOFILE allows {hard}: lower \
             max_connections, or raise the limit",
            granted.max(1),
            granted.max(1) + SPARE
        )));
    }
    Ok(granted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_fits_or_is_refused() {
        assert_eq!(fitting(Some(1000), 1032).unwrap(), 1000);
        assert_eq!(fitting(None, 1032).unwrap(), 1000);
        assert_eq!(fitting(None, u64::MAX).unwrap(), USUAL);
        let text = format!("{:?}", fitting(Some(1001), 1032).unwrap_err());
        assert!(
            text.contains("1001 connections need 1033 descriptors"),
            "{text}"
        );
        assert!(fitting(None, SPARE).is_err());
    }
}
