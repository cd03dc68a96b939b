use super::Trial;
use crate::slbn::Slbn;

#[test]
fn a_seed_gives_one_trial() {
    let (first, second) = (Trial::draw(5), Trial::draw(5));
    assert_eq!(first.steps, second.steps);
    assert_eq!(first.run::<Slbn>(), second.run::<Slbn>());
    assert_ne!(first.steps, Trial::draw(6).steps);
}
