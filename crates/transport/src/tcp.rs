//! TCP: endpoints of full-duplex connections whose payload is counted, not carried.

pub mod control;
